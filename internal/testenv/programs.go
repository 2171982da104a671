// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Kubectl is where kubectl is, of the version of the API server.
func Kubectl(tb testing.TB) string {
	tb.Helper()
	return present(tb, filepath.Join(kubeBinaries(tb), "kubectl"))
}

// Helm is where helm is.
func Helm(tb testing.TB) string {
	tb.Helper()
	root := moduleRoot(tb)
	return present(tb, filepath.Join(root, "bin", "helm", required(tb, root, "hack/cluster", "helm.sh/helm/v3"), "helm"))
}

// KubeVersion is the version of Kubernetes the tests run on. It is written down in
// one place only, the module that builds it.
func KubeVersion(tb testing.TB) string {
	tb.Helper()
	return required(tb, moduleRoot(tb), "hack/kube", "k8s.io/kubernetes")
}

// kubeBinaries is the folder with kube-apiserver, etcd and kubectl. The variable
// KUBEBUILDER_ASSETS, which envtest itself obeys, goes before.
func kubeBinaries(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = filepath.Join(moduleRoot(tb), "bin", "kube", KubeVersion(tb))
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		present(tb, filepath.Join(dir, name))
	}
	return dir
}

// present ends the test if there is no such program.
func present(tb testing.TB, path string) string {
	tb.Helper()
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		tb.Fatalf("no %s in %s: %s", filepath.Base(path), filepath.Dir(path), toolsHint)
	}
	return path
}

// required is the version of a module that the go.mod in a folder requires.
func required(tb testing.TB, root, folder, module string) string {
	tb.Helper()
	path := filepath.Join(root, folder, "go.mod")
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatalf("version of %s: %v", module, err)
	}
	found := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(module) + ` v(\S+)`).FindSubmatch(data)
	if found == nil {
		tb.Fatalf("version of %s: %s does not require it", module, path)
	}
	return string(found[1])
}
