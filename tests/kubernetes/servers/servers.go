//go:build servers

// Package servers names the programs of Kubernetes that the tests run, so that go.mod keeps what
// they are built from.
package servers

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)
