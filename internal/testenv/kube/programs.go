// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-dev/weir/internal/testenv"
)

// installHint is the command that installs missing programs.
const installHint = "run `make kube-tools`"

// Kubectl returns the path of kubectl, in the version of the API server.
func Kubectl(tb testing.TB) string {
	tb.Helper()
	return testenv.ProgramAt(tb, filepath.Join(binaries(tb), "kubectl"), installHint)
}

// Helm returns the path of helm.
func Helm(tb testing.TB) string {
	tb.Helper()
	version := testenv.PinnedVersion(tb, "hack/cluster", "helm.sh/helm/v3")
	return testenv.ProgramAt(tb, filepath.Join(testenv.ModuleRoot(tb), "bin", "helm", version, "helm"), installHint)
}

// Version returns the version of Kubernetes in the tests. It is defined only in the
// module that builds it.
func Version(tb testing.TB) string {
	tb.Helper()
	return testenv.PinnedVersion(tb, "hack/kube", "k8s.io/kubernetes")
}

// binaries returns the folder with kube-apiserver, etcd and kubectl. Like in envtest,
// KUBEBUILDER_ASSETS takes precedence.
func binaries(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = filepath.Join(testenv.ModuleRoot(tb), "bin", "kube", Version(tb))
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		testenv.ProgramAt(tb, filepath.Join(dir, name), installHint)
	}
	return dir
}
