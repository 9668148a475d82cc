//go:build tools

// Package helm pins the Helm command line that installs our chart.
package helm

import _ "helm.sh/helm/v4/cmd/helm"
