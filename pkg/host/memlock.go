package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Memlock is why containers cannot use a NIC as they expect: their limit of locked
// memory (RLIMIT_MEMLOCK, setrlimit(2)) is finite. It is nil without a limit. Containers
// inherit the limit of the container runtime, often 8 MiB, and so does this process,
// which is in one.
func (h *Host) Memlock() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return fmt.Errorf("read the limit of locked memory: %w", err)
	}
	if limit.Cur == unix.RLIM_INFINITY {
		return nil
	}
	return fmt.Errorf("the container runtime lets a container lock no more than %d bytes (RLIMIT_MEMLOCK): without the capability IPC_LOCK, to register more with a NIC (ibv_reg_mr) fails with ENOMEM, and NCCL falls back to TCP; set LimitMEMLOCK=infinity for the runtime's service (containerd or CRI-O) and restart it", limit.Cur)
}
