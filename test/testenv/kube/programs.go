// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/weir-dev/weir/test/testenv"
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

// dyingWithTest returns the path of a script that runs the program so that it ends with the process of the test, even if
// that is killed: envtest starts programs without DieWithParent. Outside Linux it returns the program.
func dyingWithTest(tb testing.TB, program string) string {
	tb.Helper()
	if runtime.GOOS != "linux" {
		return program
	}
	setpriv := testenv.ProgramOnPath(tb, "setpriv", "install util-linux")
	text := fmt.Sprintf("#!/bin/sh\nexec '%s' --pdeathsig KILL '%s' \"$@\"\n", setpriv, program)
	// Where the repository has moved, the text and so the name differ.
	name := fmt.Sprintf("%s-%.4x", filepath.Base(program), sha256.Sum256([]byte(text)))
	script := filepath.Join(testenv.ModuleRoot(tb), "bin", "testenv", name)
	err := testenv.WriteOnce(script, func(temporary string) error { return os.WriteFile(temporary, []byte(text), 0o700) })
	if err != nil {
		tb.Fatalf("script for %s: %v", program, err)
	}
	return script
}
