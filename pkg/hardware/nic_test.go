package hardware

import "testing"

func TestBandwidth(t *testing.T) {
	active := RDMAPort{State: PortActive, BitsPerSecond: 400e9}
	down := RDMAPort{State: "DOWN", BitsPerSecond: 10e9}
	verbs := DeviceNode{Path: "/dev/infiniband/uverbs0"}
	tests := map[string]struct {
		rdma []RDMADevice
		want int64
	}{
		"none":                          {},
		"two ports, one down":           {rdma: []RDMADevice{{Ports: []RDMAPort{active, down}}}, want: 400e9},
		"two devices for traffic":       {rdma: []RDMADevice{{Verbs: verbs, Ports: []RDMAPort{active}}, {Verbs: verbs, Ports: []RDMAPort{active}}}, want: 800e9},
		"one that manages the subnet":   {rdma: []RDMADevice{{Verbs: verbs, Ports: []RDMAPort{active}}, {Ports: []RDMAPort{active, active}}}, want: 400e9},
		"a port that is only initiated": {rdma: []RDMADevice{{Ports: []RDMAPort{{State: "INIT", BitsPerSecond: 400e9}}}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := (NIC{RDMA: tc.rdma}).Bandwidth(); got != tc.want {
				t.Errorf("got %d, want %d bit/s", got, tc.want)
			}
		})
	}
}
