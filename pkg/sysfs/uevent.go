package sysfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// kernelGroup is the multicast group of the kernel's own messages; udev passes them
	// on in another.
	kernelGroup = 1
	// maxUevent is room for any of them: 2 KiB of variables and a path (Linux,
	// include/linux/kobject.h, UEVENT_BUFFER_SIZE).
	maxUevent = 8 << 10
)

// Uevents calls event with the subsystem ("pci", "net") of every device of this machine,
// whatever the Tree's root, of which the kernel says that it came, went or changed, until
// ctx is done. The subsystem is empty if messages were lost. The error is why the
// kernel cannot be listened to any more.
//
// What belongs to no network namespace is said in all those that the initial user
// namespace owns; network interfaces and the class infiniband are said in their own
// only (Linux, lib/kobject_uevent.c, kobject_uevent_net_broadcast).
func (t Tree) Uevents(ctx context.Context, event func(subsystem string)) error {
	socket, err := ueventSocket()
	if err != nil {
		return fmt.Errorf("listen to the kernel's uevents: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = socket.Close() })()
	defer func() { _ = socket.Close() }()
	buffer := make([]byte, maxUevent)
	for {
		n, err := socket.Read(buffer)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS):
			event("")
		case err != nil:
			return fmt.Errorf("read a uevent: %w", err)
		default:
			if subsystem, ok := subsystemOf(buffer[:n]); ok {
				event(subsystem)
			}
		}
	}
}

// ueventSocket is a file, so that closing it ends a read. There is no library for this
// that is kept up: github.com/mdlayher/kobject has no release.
func ueventSocket() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("make a netlink socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("bind a netlink socket: %w", err)
	}
	return os.NewFile(uintptr(fd), "uevents"), nil
}

// subsystemOf reads a message: "add@/devices/...", then variables, all ended by a zero.
func subsystemOf(message []byte) (string, bool) {
	for variable := range bytes.SplitSeq(message, []byte{0}) {
		if subsystem, ok := bytes.CutPrefix(variable, []byte("SUBSYSTEM=")); ok {
			return string(subsystem), true
		}
	}
	return "", false
}
