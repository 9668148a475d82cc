// Package capability works around hosts that withhold Linux capabilities.
//
// Docker gives a privileged container every capability that the kernel knows.
// Where the bounding set of the daemon is smaller, the kernel refuses that.
package capability

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Mask is a set of capabilities, bit n standing for capability number n.
type Mask uint64

// names are in the order of linux/capability.h; the index is the number.
var names = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID",
	"CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE",
	"CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK",
	"CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE",
	"CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE",
	"CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE",
	"CAP_AUDIT_CONTROL", "CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG",
	"CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF",
	"CAP_CHECKPOINT_RESTORE",
}

// Full returns the mask of all capabilities up to and including last,
// the number in /proc/sys/kernel/cap_last_cap.
func Full(last int) Mask {
	if last >= 63 {
		return ^Mask(0)
	}
	return Mask(1)<<(last+1) - 1
}

// ParseBounding reads the bounding set from the text of /proc/<pid>/status.
func ParseBounding(status io.Reader) (Mask, error) {
	lines := bufio.NewScanner(status)
	for lines.Scan() {
		value, found := strings.CutPrefix(lines.Text(), "CapBnd:")
		if !found {
			continue
		}
		bits, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return 0, fmt.Errorf("parse bounding set: %w", err)
		}
		return Mask(bits), nil
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("read process status: %w", err)
	}
	return 0, fmt.Errorf("process status has no CapBnd line")
}

// Missing lists the capabilities that full has and m lacks, in numerical order.
func (m Mask) Missing(full Mask) []string {
	var missing []string
	for n := range 64 {
		if bit := Mask(1) << n; full&bit != 0 && m&bit == 0 {
			missing = append(missing, nameOf(n))
		}
	}
	return missing
}

// allows reports whether m holds the named capability. Names that are unknown
// here are allowed: the runtime knows better than an old table.
func (m Mask) allows(name string) bool {
	for n, known := range names {
		if strings.EqualFold(known, name) {
			return m&(Mask(1)<<n) != 0
		}
	}
	return true
}

func nameOf(n int) string {
	if n < len(names) {
		return names[n]
	}
	return fmt.Sprintf("CAP_%d", n)
}
