package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// DefaultRouteInterfaces are the interfaces over which the host has a default route,
// of IPv4 or IPv6 and of whatever metric, in ascending order. procRoot is the host's
// procfs; its process 1 is in the host's network namespace. Of a route with several
// next hops the kernel names the first one only.
func DefaultRouteInterfaces(procRoot string) ([]string, error) {
	var out []string
	for file, parse := range map[string]func([]string) string{"route": defaultRoute4, "ipv6_route": defaultRoute6} {
		raw, err := os.ReadFile(path.Join(procRoot, "1/net", file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without this protocol
		}
		if err != nil {
			return nil, fmt.Errorf("read the host's routes: %w", err)
		}
		for line := range strings.Lines(string(raw)) {
			name := parse(strings.Fields(line))
			// Routes that refuse have no interface or the loopback one.
			if name != "" && name != "*" && name != "lo" {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// defaultRoute4 is the interface of a line of /proc/net/route if it is a default
// route: interface, destination, gateway, flags, references, use, metric, mask.
func defaultRoute4(field []string) string {
	const destination, mask, zero = 1, 7, "00000000"
	if len(field) <= mask || field[destination] != zero || field[mask] != zero {
		return ""
	}
	return field[0]
}

// defaultRoute6 does so for /proc/net/ipv6_route: destination, its prefix length,
// source, its prefix length, next hop, metric, references, use, flags, interface.
func defaultRoute6(field []string) string {
	const destination, length, iface = 0, 1, 9
	if len(field) <= iface || strings.Trim(field[destination], "0") != "" || field[length] != "00" {
		return ""
	}
	return field[iface]
}
