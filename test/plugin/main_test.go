// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
	"github.com/weir-dev/weir/test/testenv/process"
)

// timeout is how long tests wait for what must happen.
const timeout = "2m"

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(kube.Main(m))
}

// command runs the plugin and returns the exit code and the output.
func command(t *testing.T, args ...string) (code int, out, complaint string) {
	t.Helper()
	cmd := testenv.CommandContext(t.Context(), process.Plugin(t), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		exit, ended := errors.AsType[*exec.ExitError](err)
		NewWithT(t).Expect(ended).To(BeTrue(), "kubectl-weir: %v", err)
		code = exit.ExitCode()
	}
	return code, stdout.String(), stderr.String()
}

// kubectl runs kubectl in the root of the repository against the API server of KUBECONFIG, and returns its output.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	cmd := testenv.CommandContext(t.Context(), kube.Kubectl(t), args...)
	cmd.Dir = testenv.ModuleRoot(t)
	out, err := cmd.CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(out))
	return string(out)
}

// useServer sets KUBECONFIG to the server, and returns it.
func useServer(t *testing.T, server *kube.APIServer) (kubeconfig string) {
	t.Helper()
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	NewWithT(t).Expect(os.WriteFile(kubeconfig, server.Env.KubeConfig, 0o600)).To(Succeed())
	t.Setenv("KUBECONFIG", kubeconfig)
	return kubeconfig
}

// startServer returns the API server of the package, without objects of former tests, and sets KUBECONFIG to it.
func startServer(t *testing.T) (server *kube.APIServer, kubeconfig string) {
	t.Helper()
	server = kube.Shared(t)
	return server, useServer(t, server)
}

// startManager starts a manager with its Redis, on the API server of the package with a Namespace shop. It returns a
// client of the API server and the URL of the manager.
func startManager(t *testing.T) (api ctrlclient.Client, url string) {
	t.Helper()
	server, kubeconfig := startServer(t)
	server.CreateNamespace("shop")
	return server.Client(), "http://" + runManager(t, kubeconfig).HTTP
}

// runManager starts a manager with its Redis.
func runManager(t *testing.T, kubeconfig string, args ...string) *process.Running {
	t.Helper()
	return process.Start(t, append([]string{
		"manager", "--redis-url", testenv.StartRedis(t).URL, "--kubeconfig", kubeconfig,
		"--tenancy", "Cluster", "--store-timeout", "1m", "--webhook-address", "",
	}, args...)...)
}
