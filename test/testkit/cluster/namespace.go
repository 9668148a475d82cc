package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// poll is how often waits look: often enough not to add to what is measured,
// seldom enough for two cores.
const poll = 250 * time.Millisecond

// Namespace makes an empty namespace and waits until pods can be made in it. One
// of that name from an earlier run is deleted first.
func (c *Cluster) Namespace(ctx context.Context, name string) error {
	if err := c.DeleteNamespace(ctx, name, 2*time.Minute); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.Client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	err := wait.PollUntilContextTimeout(ctx, poll, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := c.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, transient(err)
	})
	if err != nil {
		return fmt.Errorf("wait for the service account of namespace %s: %w", name, err)
	}
	return nil
}

// DeleteNamespace deletes a namespace with all that is in it and waits until it
// is gone. A namespace that does not exist is fine.
func (c *Cluster) DeleteNamespace(ctx context.Context, name string, timeout time.Duration) error {
	err := c.Client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete namespace %s: %w", name, err)
	}
	err = wait.PollUntilContextTimeout(ctx, poll, timeout, true, func(ctx context.Context) (bool, error) {
		_, err := c.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), transient(err)
	})
	if err != nil {
		return fmt.Errorf("wait until namespace %s is gone: %w", name, err)
	}
	return nil
}

// transient drops the errors that a wait goes on after: the object is not there
// (yet), the API server is busy for a moment, or the wait is over, which whoever
// waits says better.
func transient(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) ||
		errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
