// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/weir-dev/weir/test/testenv"
)

// InstallGatewayAPI installs the CustomResourceDefinitions of Gateways, HTTPRoutes, GRPCRoutes, and of the
// SecurityPolicies of Envoy Gateway, from the Go modules. They stay until remove is called, which waits until they are
// gone: one that still terminates could be neither updated nor created.
func (s *APIServer) InstallGatewayAPI() (remove func()) {
	s.tb.Helper()
	options := envtest.CRDInstallOptions{ErrorIfPathMissing: true, Paths: gatewayCRDs(s.tb), MaxTime: startTimeout}
	definitions, err := envtest.InstallCRDs(s.Config, options)
	if err != nil {
		s.tb.Fatalf("install the Gateway API: %v", err)
	}
	return func() {
		s.tb.Helper()
		g, c := NewWithT(s.tb), s.Client()
		g.Expect(envtest.UninstallCRDs(s.Config, options)).To(Succeed())
		for _, definition := range definitions {
			g.Eventually(func() bool {
				err := c.Get(s.tb.Context(), client.ObjectKeyFromObject(definition), &apiextensionsv1.CustomResourceDefinition{})
				return apierrors.IsNotFound(err)
			}, startTimeout).Should(BeTrue(), "%s is removed", definition.Name)
		}
	}
}

// GatewayCRDs returns the folder with the CustomResourceDefinitions of the Gateway API and of Envoy Gateway, from the
// Go module that the end-to-end tests run.
func GatewayCRDs(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(moduleFolder(tb, filepath.Join(testenv.ModuleRoot(tb), "hack", "gateway"), "github.com/envoyproxy/gateway"),
		"charts", "gateway-helm", "charts", "crds", "crds")
}

// gatewayCRDs returns the paths of the manifests.
func gatewayCRDs(tb testing.TB) []string {
	tb.Helper()
	standard := filepath.Join(moduleFolder(tb, testenv.ModuleRoot(tb), "sigs.k8s.io/gateway-api"), "config", "crd", "standard")
	envoy := filepath.Join(GatewayCRDs(tb), "generated")
	return []string{
		filepath.Join(standard, "gateway.networking.k8s.io_gateways.yaml"),
		filepath.Join(standard, "gateway.networking.k8s.io_httproutes.yaml"),
		filepath.Join(standard, "gateway.networking.k8s.io_grpcroutes.yaml"),
		filepath.Join(envoy, "gateway.envoyproxy.io_securitypolicies.yaml"),
	}
}

// moduleFolder returns the folder of a module that the go.mod in the folder requires. It downloads the module
// if needed.
func moduleFolder(tb testing.TB, folder, module string) string {
	tb.Helper()
	output, err := exec.CommandContext(tb.Context(), "go", "-C", folder, "mod", "download", "-json", module).Output()
	var downloaded struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(output, &downloaded)
	}
	if err != nil {
		tb.Fatalf("module %s: %v", module, err)
	}
	return downloaded.Dir
}
