// Package smi reads what nvidia-smi prints.
package smi

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// GPU is one GPU as `nvidia-smi -L` lists it.
type GPU struct {
	// Index is the number in "GPU 0:".
	Index int
	// Name is the product name.
	Name string
	// UUID is "GPU-...".
	UUID string
	// MIG are the MIG devices printed below the GPU.
	MIG []MIG
}

// MIG is one MIG device as `nvidia-smi -L` lists it.
type MIG struct {
	// Index is the number in "Device 0:".
	Index int
	// Profile is the profile's name without "MIG ", for example "1g.10gb".
	Profile string
	// UUID is "MIG-...".
	UUID string
}

var (
	gpuLine = regexp.MustCompile(`^GPU (\d+): (.+) \(UUID: (GPU-[0-9a-fA-F-]+)\)$`)
	migLine = regexp.MustCompile(`^MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[0-9a-fA-F-]+)\)$`)
)

// ParseList reads the output of `nvidia-smi -L`. A line that is neither a GPU nor
// a MIG device is an error, and so is a MIG device before the first GPU: what is
// not understood must not pass for "nothing there". Only the sentence that
// nvidia-smi prints on a machine without GPUs stands for an empty list.
func ParseList(out string) ([]GPU, error) {
	var gpus []GPU
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" || line == "No devices found." {
			continue
		}
		if m := gpuLine.FindStringSubmatch(line); m != nil {
			gpus = append(gpus, GPU{Index: number(m[1]), Name: m[2], UUID: m[3]})
			continue
		}
		m := migLine.FindStringSubmatch(line)
		if m == nil || len(gpus) == 0 {
			return nil, fmt.Errorf("read nvidia-smi -L: unexpected line %q", line)
		}
		last := &gpus[len(gpus)-1]
		last.MIG = append(last.MIG, MIG{Profile: m[1], Index: number(m[2]), UUID: m[3]})
	}
	return gpus, nil
}

// number converts digits that a pattern has already checked.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1 // more digits than an int holds
	}
	return n
}
