package smi

import (
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// list is what -L prints.
func list(c *client) error {
	gpus, err := c.gpus()
	if err != nil {
		return err
	}
	for _, g := range gpus {
		if err := c.listGPU(g); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) listGPU(g gpu) error {
	name, ret := g.GetName()
	if ret != nvml.SUCCESS {
		return ret
	}
	uuid, ret := g.GetUUID()
	if ret != nvml.SUCCESS {
		return ret
	}
	fmt.Fprintf(&c.out, "GPU %d: %s (UUID: %s)\n", g.index, name, uuid)
	devices, order, err := g.migDevices()
	if err != nil {
		return err
	}
	for _, i := range order {
		if err := c.listMIG(i, devices[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) listMIG(index int, m nvml.Device) error {
	name, ret := m.GetName()
	if ret != nvml.SUCCESS {
		return ret
	}
	uuid, ret := m.GetUUID()
	if ret != nvml.SUCCESS {
		return ret
	}
	_, profile, _ := strings.Cut(name, " MIG ")
	fmt.Fprintf(&c.out, "  MIG %-11s Device %2d: (UUID: %s)\n", profile, index, uuid)
	return nil
}
