package main

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed *.yaml
var manifests embed.FS

// scenario is one thing that a user may want to do.
type scenario struct {
	// name is part of the namespace's name.
	name string
	// title is one sentence for the reader.
	title string
	// files are the manifests, in the order in which they are applied.
	files []string
	// alone waits until the scenarios before have let go of their devices.
	alone bool
	// play applies the manifests and checks what comes of them.
	play func(ctx context.Context, s *stage) error
}

func scenarios() []scenario {
	return []scenario{
		{
			name: "whole-gpu", title: "a whole GPU from a claim template",
			files: []string{"01-whole-gpu.yaml"}, play: wholeGPU,
		},
		{
			name: "shared-claim", title: "two containers share a claim, each sees only its request",
			files: []string{"02-shared-claim.yaml"}, play: sharedClaim,
		},
		{
			name: "mig-profile", title: "a MIG slice of a profile, made on demand",
			files: []string{"03-mig-profile.yaml"}, play: migProfile,
		},
		{
			name: "mig-memory", title: "a MIG slice with at least 15 GiB, whatever its profile",
			files: []string{"04-mig-memory.yaml"}, play: migMemory,
		},
		{
			name: "seven-then-one", title: "seven slices on one GPU, then one that waits for all of it",
			files: []string{"05a-seven-slices.yaml", "05b-then-all-of-it.yaml"}, play: sevenThenOne,
		},
		{
			name: "compute-instances", title: "one MIG slice, divided into three compute instances",
			files: []string{"06-compute-instances.yaml"}, play: computeInstances,
		},
		{
			name: "prioritized-list", title: "a whole H100, else a slice of one, else any GPU",
			files: []string{"07a-prioritized-list.yaml", "07b-first.yaml", "07c-second.yaml", "07d-third.yaml"}, play: prioritizedList,
		},
		{
			name: "extended-resources", title: "nvidia.com/gpu in the resource limits, as for a device plugin",
			files: []string{"08-extended-resources.yaml"}, play: extendedResources,
		},
		{
			name: "partitioned-beforehand", title: "a MIG slice that was there before, as it is",
			files: []string{"09-partitioned-beforehand.yaml"}, alone: true, play: partitionedBeforehand,
		},
		{
			name: "shared-nic", title: "four MIG slices share the NIC next to their GPU",
			files: []string{"10-shared-nic.yaml"}, play: sharedNIC,
		},
		{
			name: "gpu-with-nic", title: "a GPU and the NIC below the same PCIe switch",
			files: []string{"11-gpu-with-nic.yaml"}, play: gpuWithNIC,
		},
		{
			name: "nic-alone", title: "a NIC without a GPU",
			files: []string{"12-nic-alone.yaml"}, play: nicAlone,
		},
		{
			name: "eight-pairs", title: "a whole node: eight GPUs, each with the NIC nearest to it",
			files: []string{"13-eight-pairs.yaml"}, alone: true, play: eightPairs,
		},
	}
}

// namespacePrefix is what the names of all scenarios' namespaces begin with.
const namespacePrefix = "cleave-demo-"

// namespace is the scenario's own.
func (s scenario) namespace() string { return namespacePrefix + s.name }

// choose picks scenarios by name or number, counted from 1, in their own order.
func choose(all []scenario, wanted []string) ([]scenario, error) {
	if len(wanted) == 0 {
		return all, nil
	}
	picked := map[int]bool{}
	for _, w := range wanted {
		i := slices.IndexFunc(all, func(s scenario) bool { return s.name == w })
		if n, err := strconv.Atoi(w); err == nil {
			i = n - 1
		}
		if i < 0 || i >= len(all) {
			return nil, fmt.Errorf("--only %s: no such scenario; there are %s", w, names(all))
		}
		picked[i] = true
	}
	var out []scenario
	for i, s := range all {
		if picked[i] {
			out = append(out, s)
		}
	}
	return out, nil
}

func names(all []scenario) string {
	var out []string
	for i, s := range all {
		out = append(out, fmt.Sprintf("%d %s", i+1, s.name))
	}
	return strings.Join(out, ", ")
}
