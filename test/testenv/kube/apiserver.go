// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kube runs kube-apiserver with etcd, and finds the programs of Kubernetes, for tests. The tests of a
// package that imports it belong to `make test-kube`.
//
// Read the files in this order:
//
//	apiserver.go  APIServer: kube-apiserver and etcd
//	shared.go     Shared: one API server for the tests of a package
//	reset.go      what a test leaves on the shared API server
//	gateway.go    InstallGatewayAPI: the kinds of the Gateway API and of Envoy Gateway
//	programs.go   the paths of kubectl, helm and the programs of envtest
package kube

import (
	"path/filepath"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/config/crd"
	"github.com/weir-dev/weir/test/testenv"
)

// startTimeout is how long a busy machine may take to start or stop a program of the control plane.
const startTimeout = 5 * time.Minute

// startAttempts is how often a start may fail.
const startAttempts = 3

// APIServer is a kube-apiserver with its own etcd and the CustomResourceDefinitions of
// Weir. No controllers run: no service accounts are created, and a deleted Namespace
// stays terminating.
type APIServer struct {
	// Config connects as a member of system:masters.
	Config *rest.Config

	// Env is the underlying environment, for webhooks, the kubeconfig and further users.
	Env *envtest.Environment

	tb      testing.TB
	stopped bool
}

// StartAPIServer starts an API server, waits until it serves RateLimitPolicies
// and stops it when the test, or the suite whose BeforeSuite called it, ends. Each
// function may change the environment before it starts.
func StartAPIServer(tb testing.TB, configure ...func(*envtest.Environment)) *APIServer {
	tb.Helper()
	server := start(tb, tb.TempDir(), configure...)
	tb.Cleanup(func() {
		if err := server.Env.Stop(); err != nil {
			tb.Errorf("stop kube-apiserver and etcd: %v", err)
		}
	})
	return server
}

// start starts an API server with its certificates in the folder. It tries again, because envtest waits only 5 seconds
// for the Namespace default.
func start(tb testing.TB, folder string, configure ...func(*envtest.Environment)) *APIServer {
	tb.Helper()
	var err error
	for range startAttempts {
		env := newEnvironment(tb, folder)
		for _, f := range configure {
			f(env)
		}
		var config *rest.Config
		if config, err = env.Start(); err == nil {
			return &APIServer{Config: config, Env: env, tb: tb}
		}
		_ = env.Stop() // it also cleans up after a failed start
	}
	tb.Fatalf("start kube-apiserver and etcd: %v", err)
	return nil
}

func newEnvironment(tb testing.TB, folder string) *envtest.Environment {
	tb.Helper()
	env := &envtest.Environment{
		Scheme:                   Scheme(tb),
		CRDs:                     definitions(tb),
		BinaryAssetsDirectory:    binaries(tb),
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  startTimeout,
	}
	env.CRDInstallOptions.MaxTime = startTimeout
	env.ControlPlane.Etcd = &envtest.Etcd{Path: dyingWithTest(tb, filepath.Join(binaries(tb), "etcd"))}
	server := env.ControlPlane.GetAPIServer()
	server.Path = dyingWithTest(tb, filepath.Join(binaries(tb), "kube-apiserver"))
	// With a folder of our own, certificates and keys survive a stop of the server, so
	// that Start restarts the same one.
	server.CertDir = folder
	return env
}

// Client returns a client without a cache, for the types of Kubernetes and of Weir.
func (s *APIServer) Client() client.Client {
	s.tb.Helper()
	c, err := client.New(s.Config, client.Options{Scheme: s.Env.Scheme, FieldValidation: "Strict"})
	if err != nil {
		s.tb.Fatalf("client: %v", err)
	}
	return c
}

// Stop kills kube-apiserver and leaves etcd running: an outage of the API server. A
// graceful shutdown would wait for watches to end, which the watches of a manager never do.
func (s *APIServer) Stop() {
	s.tb.Helper()
	testenv.KillChild("kube-apiserver", "--secure-port="+s.Env.ControlPlane.GetAPIServer().Port)
	if err := s.Env.ControlPlane.GetAPIServer().Stop(); err != nil {
		s.tb.Fatalf("stop kube-apiserver: %v", err)
	}
	s.stopped = true
}

// Start ends an outage: it restarts the server at the same address with its data.
func (s *APIServer) Start() {
	s.tb.Helper()
	if err := s.Env.ControlPlane.GetAPIServer().Start(); err != nil {
		s.tb.Fatalf("start kube-apiserver: %v", err)
	}
	s.stopped = false
}

// Scheme returns a new scheme with the types of Kubernetes, of Weir and of
// CustomResourceDefinitions.
func Scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme)
	if err := builder.AddToScheme(scheme); err != nil {
		tb.Fatalf("scheme: %v", err)
	}
	return scheme
}

func definitions(tb testing.TB) []*apiextensionsv1.CustomResourceDefinition {
	tb.Helper()
	all, err := crd.Definitions()
	if err != nil {
		tb.Fatal(err)
	}
	return all
}
