package nvml_test

import (
	"sync"
	"testing"
)

// Many callers at once, while the session ends again and again under them: each
// gets an answer, none a library that is shut down.
func TestConcurrentCallers(t *testing.T) {
	d := migDriver(t)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 50 {
				node, skipped, err := d.Node(t.Context())
				if err != nil || len(skipped) > 0 || len(node.GPUs) != 2 {
					t.Errorf("Node = %d GPUs, %v, %v", len(node.GPUs), skipped, err)
				}
				if _, err := d.Instances(t.Context(), gpu(0)); err != nil {
					t.Errorf("Instances: %v", err)
				}
			}
		})
		callers.Go(func() {
			for range 50 {
				d.Close()
			}
		})
	}
	callers.Wait()
}
