package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleave-dra/cleave/test/testkit/cluster"
)

// show plays scenarios and collects what the pods saw.
type show struct {
	cluster *cluster.Cluster
	out     io.Writer
	image   string
	keep    bool
	timeout time.Duration
	rows    []row
}

// run plays the scenarios in order and stops at the first that fails, whose
// namespace is left for a look.
func (s *show) run(ctx context.Context, scenarios []scenario) error {
	if err := s.clear(ctx); err != nil {
		return err
	}
	if err := s.waitForDevices(ctx); err != nil {
		return err
	}
	// What is over goes while the next plays; who needs its GPUs waits for them.
	var leaving errgroup.Group
	for i, sc := range scenarios {
		fmt.Fprintf(s.out, "\n[%d/%d] %s: %s\n", i+1, len(scenarios), sc.name, sc.title)
		if sc.alone {
			if err := leaving.Wait(); err != nil {
				return err
			}
		}
		if err := s.play(ctx, sc); err != nil {
			return fmt.Errorf("%s: %w\n\nits namespace is left for a look: kubectl -n %s get pods,resourceclaims", sc.name, err, sc.namespace())
		}
		if last := i == len(scenarios)-1; last && s.keep {
			fmt.Fprintf(s.out, "  left running: kubectl -n %s get pods,resourceclaims\n", sc.namespace())
			fmt.Fprintf(s.out, "  to end it:    kubectl delete namespace %s\n", sc.namespace())
			continue
		}
		leaving.Go(func() error {
			if err := s.cluster.DeleteNamespace(ctx, sc.namespace(), s.timeout); err != nil {
				return fmt.Errorf("%s: %w", sc.name, err)
			}
			return nil
		})
	}
	if err := leaving.Wait(); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	if err := printTable(s.out, s.rows); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	s.hint(scenarios)
	return nil
}

// clear removes what an earlier run has left, whose pods may hold the GPUs that are
// wanted now.
func (s *show) clear(ctx context.Context) error {
	list, err := s.cluster.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list namespaces: %w", err)
	}
	for _, ns := range list.Items {
		if !strings.HasPrefix(ns.Name, namespacePrefix) {
			continue
		}
		fmt.Fprintf(s.out, "removing namespace %s of an earlier run\n", ns.Name)
		if err := s.cluster.DeleteNamespace(ctx, ns.Name, s.timeout); err != nil {
			return err
		}
	}
	return nil
}

func (s *show) play(ctx context.Context, sc scenario) error {
	if err := s.cluster.Namespace(ctx, sc.namespace()); err != nil {
		return err
	}
	st := &stage{show: s, namespace: sc.namespace(), began: time.Now()}
	return sc.play(ctx, st)
}

// hint shows how to do by hand what the demo did.
func (s *show) hint(scenarios []scenario) {
	fmt.Fprint(s.out, "\nAll as it should be. By hand, one scenario after the other, since some want the same GPU:\n\n")
	if kubeconfig := os.Getenv("KUBECONFIG"); kubeconfig != "" {
		fmt.Fprintf(s.out, "  export KUBECONFIG=%s\n", kubeconfig)
	}
	if kubectl, err := exec.LookPath("kubectl"); err == nil {
		fmt.Fprintf(s.out, "  export PATH=%s:$PATH\n", filepath.Dir(kubectl))
	}
	for _, sc := range scenarios {
		fmt.Fprintf(s.out, "\n  kubectl create namespace try          # %s\n", sc.title)
		for _, f := range sc.files {
			fmt.Fprintf(s.out, "  kubectl -n try apply -f demo/%s\n", f)
		}
		fmt.Fprint(s.out, "  kubectl -n try get pods,resourceclaims\n  kubectl delete namespace try\n")
	}
}
