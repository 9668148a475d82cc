//go:build tools

// Package etcd pins the etcd server of the node image. It has a module of its
// own because etcd's replace lines make `go install` refuse it.
package etcd

import _ "go.etcd.io/etcd/server/v3"
