package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithoutDocker(t *testing.T) {
	const rules = `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:DOCKER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:MINE - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -o br-6679b401eeb4 -j ACCEPT
-A FORWARD -i docker0 -o docker0 -j ACCEPT
-A FORWARD -i br-lan -j MINE
-A DOCKER-USER -j RETURN
COMMIT
*nat
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
COMMIT`
	const want = `*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:MINE - [0:0]
-A FORWARD -i br-lan -j MINE
COMMIT
*nat
COMMIT
`
	if diff := cmp.Diff(want, withoutDocker(rules, "ACCEPT")); diff != "" {
		t.Error(diff)
	}
}

func TestForwardPolicy(t *testing.T) {
	for rules, want := range map[string]string{
		"": "ACCEPT",
		"*mangle\n:FORWARD ACCEPT [0:0]\nCOMMIT\n*filter\n:FORWARD DROP [0:0]\n": "DROP",
		"*mangle\n:FORWARD DROP [0:0]\nCOMMIT\n":                                 "ACCEPT",
	} {
		if got := forwardPolicy(rules); got != want {
			t.Errorf("forwardPolicy(%q) = %s, want %s", rules, got, want)
		}
	}
}
