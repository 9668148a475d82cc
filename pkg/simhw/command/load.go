package command

import (
	"context"
	"io"

	"github.com/cleave-dra/cleave/pkg/simhw"
)

// loadCommand starts a process on a GPU or a MIG device.
func loadCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := newGPUFlags(args[0], stderr)
	var p simhw.Process
	f.IntVar(&p.PID, "pid", 4242, "`id` of the process")
	f.StringVar(&p.Name, "name", "python3", "`name` of the program")
	f.Int64Var(&p.MemoryMiB, "memory-mib", 512, "GPU memory that it uses, in `MiB`")
	f.IntVar(&p.GPUInstance, "instance", -1, "`id` of the GPU instance; -1 is the whole GPU")
	f.IntVar(&p.ComputeInstance, "compute-instance", 0, "`id` of the compute instance in it")
	return f.send(ctx, args, "processes", func() (any, error) {
		if p.GPUInstance < 0 {
			p.GPUInstance, p.ComputeInstance = simhw.NoInstance, simhw.NoInstance
		}
		return p, nil
	}, stdout)
}
