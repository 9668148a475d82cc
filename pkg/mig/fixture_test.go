package mig

import "slices"

// sevenByEight is the geometry of A100, H100, H200 and B200: seven compute and
// eight memory slices (NVIDIA MIG User Guide; placements from NVIDIA's go-nvml,
// pkg/nvml/mock/gpus/a100.go). memory and engines are per profile in the order
// 1g, 1g+me, 1g with twice the memory, 2g, 3g, 4g, 7g.
func sevenByEight(totalMiB int64, memory [7]int64, engines [7]Engines) []Profile {
	rows := []Profile{
		{Enum: Profile1Slice, ID: 19, Slices: 1, MaxInstances: 7, Placements: run(1, 0, 1, 2, 3, 4, 5, 6)},
		{Enum: Profile1SliceRev1, ID: 20, Slices: 1, MaxInstances: 1, Placements: run(1, 0, 1, 2, 3, 4, 5, 6)},
		{Enum: Profile1SliceRev2, ID: 15, Slices: 1, MaxInstances: 4, Placements: run(2, 0, 2, 4, 6)},
		{Enum: Profile2Slice, ID: 14, Slices: 2, MaxInstances: 3, Placements: run(2, 0, 2, 4)},
		{Enum: Profile3Slice, ID: 9, Slices: 3, MaxInstances: 2, Placements: run(4, 0, 4)},
		{Enum: Profile4Slice, ID: 5, Slices: 4, MaxInstances: 1, Placements: run(4, 0)},
		{Enum: Profile7Slice, ID: 0, Slices: 7, MaxInstances: 1, Placements: run(8, 0)},
	}
	return named(rows, totalMiB, memory[:], engines[:])
}

// h100 is the H100 80GB SXM (MIG User Guide; memory and multiprocessors as
// nvidia-smi mig -lgip prints them).
func h100() []Profile {
	return sevenByEight(81559, [7]int64{9984, 9984, 20096, 20096, 40448, 40448, 81152}, [7]Engines{
		{Multiprocessors: 16, CopyEngines: 1, Decoders: 1, JPEGEngines: 1},
		{Multiprocessors: 16, CopyEngines: 1, Decoders: 1, JPEGEngines: 1, OFAEngines: 1},
		{Multiprocessors: 26, CopyEngines: 1, Decoders: 1, JPEGEngines: 1},
		{Multiprocessors: 32, CopyEngines: 2, Decoders: 2, JPEGEngines: 2},
		{Multiprocessors: 60, CopyEngines: 3, Decoders: 3, JPEGEngines: 3},
		{Multiprocessors: 64, CopyEngines: 4, Decoders: 4, JPEGEngines: 4},
		{Multiprocessors: 132, CopyEngines: 8, Decoders: 7, JPEGEngines: 7, OFAEngines: 1},
	})
}

// a100 is the A100 40GB (NVIDIA's go-nvml, pkg/nvml/mock/gpus/a100.go). Two of
// its 3g instances have more memory than its 7g one would leave for them.
func a100() []Profile {
	return sevenByEight(40960, [7]int64{4864, 4864, 9856, 9856, 19968, 19968, 40192}, [7]Engines{
		{Multiprocessors: 14, CopyEngines: 1},
		{Multiprocessors: 14, CopyEngines: 1, Decoders: 1, JPEGEngines: 1, OFAEngines: 1},
		{Multiprocessors: 14, CopyEngines: 1, Decoders: 1},
		{Multiprocessors: 28, CopyEngines: 2, Decoders: 1},
		{Multiprocessors: 42, CopyEngines: 3, Decoders: 2},
		{Multiprocessors: 56, CopyEngines: 4, Decoders: 2},
		{Multiprocessors: 98, CopyEngines: 7, Decoders: 5, JPEGEngines: 1, OFAEngines: 1},
	})
}

// a30 is the A30 24GB: four slices, and variants with media engines in two sizes
// (MIG User Guide).
func a30() []Profile {
	rows := []Profile{
		{Enum: Profile1Slice, ID: 14, Slices: 1, MaxInstances: 4, Placements: run(1, 0, 1, 2, 3)},
		{Enum: Profile1SliceRev1, ID: 21, Slices: 1, MaxInstances: 1, Placements: run(1, 0, 1, 2, 3)},
		{Enum: Profile2Slice, ID: 5, Slices: 2, MaxInstances: 2, Placements: run(2, 0, 2)},
		{Enum: Profile2SliceRev1, ID: 6, Slices: 2, MaxInstances: 1, Placements: run(2, 0, 2)},
		{Enum: Profile4Slice, ID: 0, Slices: 4, MaxInstances: 1, Placements: run(4, 0)},
	}
	return named(rows, 24576, []int64{5952, 5952, 11968, 11968, 24000}, []Engines{
		{Multiprocessors: 14, CopyEngines: 1, Decoders: 1},
		{Multiprocessors: 14, CopyEngines: 1, Decoders: 1, JPEGEngines: 1, OFAEngines: 1},
		{Multiprocessors: 28, CopyEngines: 2, Decoders: 2},
		{Multiprocessors: 28, CopyEngines: 2, Decoders: 2, JPEGEngines: 1, OFAEngines: 1},
		{Multiprocessors: 56, CopyEngines: 4, Decoders: 4, JPEGEngines: 1, OFAEngines: 1},
	})
}

// rtxPro6000 is the RTX PRO 6000 Blackwell 96GB: four slices placed in twelve units
// of memory, and variants of each size (nvidia-smi mig -lgip and -lgipp as posted).
func rtxPro6000() []Profile {
	quarters, halves, whole := run(3, 0, 3, 6, 9), run(6, 0, 6), run(12, 0)
	rows := []Profile{
		{Enum: Profile1Slice, ID: 14, Slices: 1, MaxInstances: 4, Placements: quarters},
		{Enum: Profile1SliceRev1, ID: 21, Slices: 1, MaxInstances: 1, Placements: quarters},
		{Enum: Profile1SliceGfx, ID: 47, Slices: 1, MaxInstances: 4, Placements: quarters},
		{Enum: Profile1SliceAllMe, ID: 65, Slices: 1, MaxInstances: 1, Placements: quarters},
		{Enum: Profile1SliceNoMe, ID: 67, Slices: 1, MaxInstances: 4, Placements: quarters},
		{Enum: Profile2Slice, ID: 5, Slices: 2, MaxInstances: 2, Placements: halves},
		{Enum: Profile2SliceAllMe, ID: 64, Slices: 2, MaxInstances: 1, Placements: halves},
		{Enum: Profile4Slice, ID: 0, Slices: 4, MaxInstances: 1, Placements: whole},
	}
	one, all := Engines{46, 1, 1, 1, 1, 0}, Engines{46, 1, 4, 4, 4, 1}
	return named(rows, 97887, []int64{24192, 24192, 24192, 24192, 24192, 48512, 48512, 97408}, []Engines{
		one, {46, 1, 1, 1, 1, 1}, one, all, {46, 1, 0, 0, 0, 0}, {94, 2, 2, 2, 2, 0}, {94, 2, 4, 4, 4, 1}, {188, 4, 4, 4, 4, 1},
	})
}

// run makes placements of one size.
func run(size int, starts ...int) []Placement {
	var out []Placement
	for _, start := range starts {
		out = append(out, Placement{Start: start, Size: size})
	}
	return out
}

func named(rows []Profile, totalMiB int64, memory []int64, engines []Engines) []Profile {
	for i := range rows {
		rows[i].MemoryMiB = memory[i]
		rows[i].Engines = engines[i]
		rows[i].Name = Name(rows[i].Enum, rows[i].Slices, memory[i], totalMiB)
	}
	return rows
}

func find(profiles []Profile, name string) Profile {
	return profiles[slices.IndexFunc(profiles, func(p Profile) bool { return p.Name == name })]
}
