package hardware

// PairName is the name in a ResourceSlice of a GPU together with a NIC near it,
// "gpu-0000-1b-00-0-nic-0000-18-00-0".
func PairName(g GPU, n NIC) string { return g.DeviceName() + "-" + n.DeviceName() }
