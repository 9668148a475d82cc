// Package e2e tests the installed driver in a real cluster with simulated GPUs:
//
//	KUBECONFIG=... go test -tags e2e -v ./test/e2e/...
//
// It wants one node labelled cleave.dev/simulated=dgx-h100 and one labelled
// cleave.dev/simulated=mixed, and nobody else who uses their GPUs. Pods run the
// image named by CLEAVE_E2E_IMAGE, cleave-base:latest by default, which needs bash
// and the usual small tools. With the build tag gates there are also tests for clusters
// whose API server lacks features, which `make e2e-gates` makes. Tests named after a
// case, as in TestX/PREP-03, stand for a failure that users of such drivers have
// reported.
package e2e
