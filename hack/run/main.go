// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command run runs Weir on a real API server, for a demonstration: it starts etcd,
// kube-apiserver, a Redis and the manager with its webhook, applies the sample policies and
// prints commands to try. Ctrl-C stops and removes everything.
//
// `make run` runs it in the root of the repository. Read main.go, then webhook.go; process_linux.go and
// process_other.go have the attributes of the processes.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/weir-dev/weir/config/crd"
)

const (
	namespaces = "config/samples/namespace"
	samples    = "config/samples"
	// processTimeout bounds the start and the stop of each process.
	processTimeout = time.Minute
)

// addresses are where the manager listens, by flag. All are on loopback: this machine only.
type addresses struct {
	http, grpc, metrics, operator string
}

// defaultAddresses have the ports of the defaults of the flags.
var defaultAddresses = addresses{
	http: "127.0.0.1:8080", grpc: "127.0.0.1:8081", metrics: "127.0.0.1:8082", operator: "127.0.0.1:8083",
}

func (a *addresses) flags() []string {
	return []string{
		"--http-address", a.http, "--grpc-address", a.grpc, "--metrics-address", a.metrics, "--operator-address", a.operator,
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the first context
	err := run(ctx, "", defaultAddresses, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// stack holds everything that was started. It is stopped in reverse order.
type stack struct {
	dir      string // temporary files
	binaries string // kube-apiserver, etcd, kubectl
	token    string // for the console
	webhook  envtest.WebhookInstallOptions
	stops    []func() error
}

// run runs the stack with the program weir, which it builds if the path is empty, until ctx ends. It writes the
// commands to try to out.
func run(ctx context.Context, weir string, at addresses, out io.Writer) (err error) {
	s := &stack{}
	defer func() { err = errors.Join(err, s.stop()) }()
	if s.dir, err = os.MkdirTemp("", "weir-run-"); err != nil {
		return err
	}
	s.stops = append(s.stops, func() error { return os.RemoveAll(s.dir) })

	logStep("Building kube-apiserver, etcd and kubectl (a few minutes, only once)")
	if err := s.buildKube(ctx); err != nil {
		return err
	}
	if weir == "" {
		logStep("Building weir")
		weir = filepath.Join(s.dir, "weir")
		if err := do(ctx, "go", "build", "-o", weir, "./cmd/weir"); err != nil {
			return err
		}
	}
	redisURL, err := s.startRedis(ctx)
	if err != nil {
		return err
	}
	logStep("Starting etcd and kube-apiserver, installing the CRD and the webhook")
	kubeconfig, err := s.startKube(ctx)
	if err != nil {
		return err
	}
	logStep("Starting the manager")
	ended, err := s.startManager(ctx, weir, at, redisURL, kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(fmt.Errorf("manager ended: %w", <-ended)) }()
	kubectl := filepath.Join(s.binaries, "kubectl")
	if err := applySamples(ctx, kubectl, kubeconfig); err != nil {
		return err
	}
	printCommands(out, at, kubeconfig, kubectl, s.token)
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	logStep("Stopping")
	return nil
}

// applySamples applies the sample policies and waits until they are enforced.
func applySamples(ctx context.Context, kubectl, kubeconfig string) error {
	logStep("Applying " + namespaces + " and " + samples)
	for _, args := range [][]string{
		{"apply", "-f", namespaces, "-f", samples},
		{"wait", "--for=condition=Ready", "--timeout=60s", "rlpol", "--all", "-A"},
		{"get", "rlpol", "-A"},
	} {
		if err := do(ctx, kubectl, append(args, "--kubeconfig", kubeconfig)...); err != nil {
			return err
		}
	}
	return nil
}

// buildKube builds the binaries of the control plane unless they exist.
func (s *stack) buildKube(ctx context.Context) error {
	if err := do(ctx, "hack/kube/build.sh"); err != nil {
		return err
	}
	mod, err := os.ReadFile("hack/kube/go.mod")
	if err != nil {
		return err
	}
	version := regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes v(\S+)`).FindSubmatch(mod)
	if version == nil {
		return errors.New("hack/kube/go.mod does not require k8s.io/kubernetes")
	}
	s.binaries, err = filepath.Abs(filepath.Join("bin", "kube", string(version[1])))
	return err
}

// startRedis starts redis-server, which it installs if needed.
func (s *stack) startRedis(ctx context.Context) (url string, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		logStep("Installing redis-server")
		if err := do(ctx, "hack/redis.sh"); err != nil {
			return "", err
		}
		if path, err = exec.LookPath("redis-server"); err != nil {
			return "", err
		}
	}
	logStep("Starting " + path)
	address, err := freeAddress(ctx)
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	_, err = s.start(path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", s.dir,
		"--logfile", filepath.Join(s.dir, "redis.log"))
	return "redis://" + address, err
}

// startKube starts the control plane and returns the path of a kubeconfig.
func (s *stack) startKube(ctx context.Context) (string, error) {
	definitions, err := crd.Definitions()
	if err != nil {
		return "", err
	}
	binaries, err := s.mortalBinaries()
	if err != nil {
		return "", err
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: binaries,
		CRDs:                  definitions,
	}
	if env.WebhookInstallOptions, err = webhookByURL(ctx); err != nil {
		return "", err
	}
	s.stops = append(s.stops, env.Stop)
	if _, err := env.Start(); err != nil {
		return "", err
	}
	s.webhook = env.WebhookInstallOptions // with its certificate
	path := filepath.Join(s.dir, "kubeconfig")
	return path, os.WriteFile(path, env.KubeConfig, 0o600)
}

// mortalBinaries returns a folder with the programs of the control plane, as scripts after whose start the program
// is killed if this process is.
func (s *stack) mortalBinaries() (string, error) {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return s.binaries, nil //nolint:nilerr // not on Linux: they end in order only
	}
	for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
		script := fmt.Sprintf("#!/bin/sh\nexec '%s' --pdeathsig KILL '%s' \"$@\"\n", setpriv, filepath.Join(s.binaries, name))
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(script), 0o700); err != nil { //nolint:gosec // a program
			return "", err
		}
	}
	return s.dir, nil
}

// startManager starts the manager as the chart does, and waits until it and its webhook accept
// connections.
func (s *stack) startManager(ctx context.Context, weir string, at addresses, redisURL, kubeconfig string) (<-chan error, error) {
	// Fail if another process listens on the address.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", at.http)
	if err != nil {
		return nil, err
	}
	if err := listener.Close(); err != nil {
		return nil, err
	}
	token, err := s.writeToken()
	if err != nil {
		return nil, err
	}
	webhook := net.JoinHostPort(s.webhook.LocalServingHost, strconv.Itoa(s.webhook.LocalServingPort))
	args := append([]string{
		"manager", "--tenancy", "Namespace", "--webhook-address", webhook,
		"--webhook-cert-file", filepath.Join(s.webhook.LocalServingCertDir, "tls.crt"),
		"--webhook-key-file", filepath.Join(s.webhook.LocalServingCertDir, "tls.key"),
		"--console", "--admin-token-file", token, "--redis-url", redisURL, "--kubeconfig", kubeconfig,
	}, at.flags()...)
	ended, err := s.start(weir, args...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, processTimeout)
	defer cancel()
	for _, address := range []string{at.http, webhook} {
		if err := awaitPort(ctx, address, ended); err != nil {
			return nil, err
		}
	}
	return ended, nil
}

// awaitPort waits until the address accepts connections, or the manager ends.
func awaitPort(ctx context.Context, address string, ended <-chan error) error {
	for {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return connection.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("manager ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("no response on %s: %w", address, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// writeToken writes a random token for the console, and returns the file.
func (s *stack) writeToken() (path string, err error) {
	s.token = rand.Text()
	path = filepath.Join(s.dir, "token")
	return path, os.WriteFile(path, []byte(s.token), 0o600)
}

// start starts a process that stop ends. It has its own process group, so that Ctrl-C
// signals only this process and everything stops in order; on Linux it dies with this process.
func (s *stack) start(name string, args ...string) (<-chan error, error) {
	cmd := exec.Command(name, args...) //nolint:noctx,gosec // stopped in order, see below; fixed commands
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = ownGroup()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	gone := make(chan struct{})
	go func() {
		ended <- cmd.Wait()
		close(gone)
	}()
	s.stops = append(s.stops, func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		select {
		case <-gone:
		case <-time.After(processTimeout):
			return errors.Join(fmt.Errorf("%s did not stop in time", name), cmd.Process.Kill())
		}
		return nil
	})
	return ended, nil
}

func (s *stack) stop() error {
	var errs []error
	for _, stop := range slices.Backward(s.stops) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// do runs a command in the foreground.
func do(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // fixed commands
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func freeAddress(ctx context.Context) (string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

func logStep(step string) { fmt.Fprintln(os.Stderr, "==>", step) }

func printCommands(out io.Writer, at addresses, kubeconfig, kubectl, token string) {
	_, _ = fmt.Fprintf(out, `
Weir is running. In another shell:

  export KUBECONFIG=%s
  alias kubectl=%s
  kubectl get rlpol -A
  kubectl edit rlpol -n shop burst

The policy allows three requests in any ten seconds. Repeat this until the status is 429:

  curl -i -d '{"policies":["shop/burst"],"key":"alice"}' %s/v1/check
  curl -i -d '{"policies":["shop/login"],"key":["bob","192.0.2.1"]}' %[3]s/v1/check
  curl -s %[4]s/v1/policies

Watch the limits at http://%[4]s/console/ and log in with the token %[5]s

Ctrl-C stops and removes everything.
`, kubeconfig, kubectl, at.http, at.operator, token)
}
