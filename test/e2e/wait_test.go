//go:build e2e

package e2e

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// eventually waits until check returns nil and ends the test with its last error
// if it does not in time.
func (e *env) eventually(timeout time.Duration, what string, check func(context.Context) error) {
	e.t.Helper()
	if err := try(e.t.Context(), timeout, check); err != nil {
		e.t.Fatalf("%s: not so after %s: %v", what, timeout, err)
	}
}

// try waits until check returns nil; its last error tells why it did not.
func try(ctx context.Context, timeout time.Duration, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, poll, timeout, true, func(ctx context.Context) (bool, error) {
		if err := check(ctx); ctx.Err() == nil {
			last = err
		}
		return last == nil && ctx.Err() == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}
