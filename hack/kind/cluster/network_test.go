package cluster

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func member(t *testing.T, name, cidr, address, ready string) node {
	t.Helper()
	var n node
	text := `{"metadata":{"name":"` + name + `"},"spec":{"podCIDR":"` + cidr + `"},"status":{` +
		`"addresses":[{"type":"Hostname","address":"x"},{"type":"InternalIP","address":"` + address + `"}],` +
		`"conditions":[{"type":"Ready","status":"` + ready + `"}]}}`
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRoutes(t *testing.T) {
	a := member(t, "a", "10.244.0.0/24", "172.18.0.2", "True")
	b := member(t, "b", "10.244.1.0/24", "172.18.0.3", "True")
	want := `set -eu
sysctl -q -w net.ipv4.ip_forward=1
ip route replace 10.244.1.0/24 via 172.18.0.3
nft -f - <<EOF
table ip cleave
delete table ip cleave
table ip cleave {
  chain postrouting {
    type nat hook postrouting priority 100;
    ip saddr 10.244.0.0/24 ip daddr != 10.244.0.0/16 oifname "eth0" masquerade
  }
}
EOF
`
	if diff := cmp.Diff(want, routes(a, []node{a, b})); diff != "" {
		t.Error(diff)
	}
}

func TestReadiness(t *testing.T) {
	up := member(t, "a", "10.244.0.0/24", "172.18.0.2", "True")
	down := member(t, "b", "10.244.1.0/24", "172.18.0.3", "False")
	bare := member(t, "c", "", "172.18.0.4", "False")
	tests := map[string]struct {
		nodes            []node
		ready, addressed bool
	}{
		"all":               {nodes: []node{up, up}, ready: true, addressed: true},
		"one is missing":    {nodes: []node{up}},
		"one is not ready":  {nodes: []node{up, down}, addressed: true},
		"one has no subnet": {nodes: []node{up, bare}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := allReady(tc.nodes, 2); (err == nil) != tc.ready {
				t.Errorf("allReady() = %v, want ready = %v", err, tc.ready)
			}
			if err := addressed(tc.nodes, 2); (err == nil) != tc.addressed {
				t.Errorf("addressed() = %v, want addressed = %v", err, tc.addressed)
			}
		})
	}
}
