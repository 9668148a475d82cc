package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// row is one device of one container.
type row struct {
	// pod names the pod, and the container if the pod has several.
	pod  string
	seen cluster.Seen
}

// inside is what nvidia-smi -L says of a GPU, and how many NICs' nodes there are.
func inside(s cluster.Seen) string {
	gpu := fmt.Sprintf("GPU %d: %s (UUID: %s)", s.GPU.Index, s.GPU.Name, s.GPU.UUID)
	nic := "RDMA " + s.Attribute("rdmaDevice")
	switch {
	case s.NIC() == "":
		return gpu
	case s.GPU.UUID == "":
		return nic
	default:
		return gpu + ", " + nic
	}
}

// printTable prints each device with what the container sees of it. A MIG slice
// takes a line more for each MIG device, since nvidia-smi -L does too.
func printTable(out io.Writer, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "POD\tCLAIM\tDEVICE\tMIG UUID\tINSIDE THE CONTAINER")
	for _, r := range rows {
		s := r.seen
		if s.MIG == nil {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.pod, s.Claim.Name, s.Device.Name, "-", inside(s))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.pod, s.Claim.Name, s.Device.Name, s.MIG.UUID, inside(s))
		for _, m := range s.Parts {
			fmt.Fprintf(w, "\t\t\t\t  MIG %s Device %d: (UUID: %s)\n", m.Profile, m.Index, m.UUID)
		}
	}
	return w.Flush()
}
