//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"testing"
)

// TestDemo plays what the README promises first.
func TestDemo(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "run", "./demo")
	command.Dir = "../.."
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		t.Errorf("go run ./demo: %v", err)
	}
}
