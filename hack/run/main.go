// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command run shows Weir at work on a real API server: it starts etcd,
// kube-apiserver, a Redis and the manager, applies the sample policies and
// prints what to type next. It ends with Ctrl-C and leaves nothing behind.
//
// It is what `make run` runs, in the root of the repository.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/weir-dev/weir/config/crd"
	"github.com/weir-dev/weir/internal/limiter/embedded"
)

const (
	samples     = "config/samples"
	httpAddress = "localhost:8080"
	// patience bounds the wait for anything that starts.
	patience = time.Minute
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // the first context
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// world is everything that was started, to be stopped in reverse.
type world struct {
	dir      string // scratch
	binaries string // kube-apiserver, etcd, kubectl
	stops    []func() error
}

func run(ctx context.Context) (err error) {
	w := &world{}
	defer func() { err = errors.Join(err, w.stop()) }()
	if w.dir, err = os.MkdirTemp("", "weir-run-"); err != nil {
		return err
	}
	w.stops = append(w.stops, func() error { return os.RemoveAll(w.dir) })

	say("Getting kube-apiserver, etcd and kubectl (once; a few minutes if they must be built)")
	if err := w.getKube(ctx); err != nil {
		return err
	}
	say("Building weir")
	weir := filepath.Join(w.dir, "weir")
	if err := do(ctx, "go", "build", "-o", weir, "./cmd/weir"); err != nil {
		return err
	}
	redisURL, err := w.startRedis(ctx)
	if err != nil {
		return err
	}
	say("Starting etcd and kube-apiserver, installing the CRD")
	kubeconfig, err := w.startKube()
	if err != nil {
		return err
	}
	say("Starting the manager")
	ended, err := w.startManager(ctx, weir, redisURL, kubeconfig)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(fmt.Errorf("the manager ended: %w", <-ended)) }()
	say("Applying " + samples)
	kubectl := filepath.Join(w.binaries, "kubectl")
	if err := do(ctx, "env", "KUBECONFIG="+kubeconfig, "sh", "-c",
		kubectl+" create namespace shop && "+kubectl+" apply -f "+samples+" && "+
			kubectl+" wait --for=condition=Ready --timeout=60s rlpol --all -A && "+kubectl+" get rlpol -A"); err != nil {
		return err
	}
	invite(kubeconfig, kubectl)
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	say("Stopping")
	return nil
}

// getKube makes the binaries of the control plane present.
func (w *world) getKube(ctx context.Context) error {
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
	w.binaries, err = filepath.Abs(filepath.Join("bin", "kube", string(version[1])))
	return err
}

// startRedis starts the redis-server that is installed, else an embedded one.
func (w *world) startRedis(ctx context.Context) (url string, err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		say("Starting an embedded Redis (no redis-server is installed)")
		server, err := embedded.Start()
		if err != nil {
			return "", err
		}
		w.stops = append(w.stops, func() error { server.Close(); return nil })
		return server.URL(), nil
	}
	say("Starting " + path)
	address, err := freeAddress(ctx)
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	_, err = w.start(path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", w.dir,
		"--logfile", filepath.Join(w.dir, "redis.log"))
	return "redis://" + address, err
}

// startKube starts the control plane and returns the path of a kubeconfig.
func (w *world) startKube() (string, error) {
	definition, err := crd.RateLimitPolicies()
	if err != nil {
		return "", err
	}
	env := &envtest.Environment{
		BinaryAssetsDirectory: w.binaries,
		CRDs:                  []*apiextensionsv1.CustomResourceDefinition{definition},
	}
	w.stops = append(w.stops, env.Stop)
	if _, err := env.Start(); err != nil {
		return "", err
	}
	path := filepath.Join(w.dir, "kubeconfig")
	return path, os.WriteFile(path, env.KubeConfig, 0o600)
}

// startManager starts the manager and waits until it leads nobody astray: its
// endpoint answers once the registry exists.
func (w *world) startManager(ctx context.Context, weir, redisURL, kubeconfig string) (<-chan error, error) {
	// What listens there already would be taken for the manager.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", httpAddress)
	if err != nil {
		return nil, err
	}
	if err := listener.Close(); err != nil {
		return nil, err
	}
	// Nothing here asks the webhook: this API server resolves no Services.
	ended, err := w.start(weir, "manager", "--tenancy", "Cluster", "--webhook-address", "",
		"--redis-url", redisURL, "--kubeconfig", kubeconfig)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", httpAddress)
		if err == nil {
			return ended, connection.Close()
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("the manager ended: %w", err)
		case <-ctx.Done():
			return nil, fmt.Errorf("nothing answers on %s: %w", httpAddress, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// start starts a process that stop ends. It is in a process group of its own,
// so that a Ctrl-C reaches only us and everything ends in order.
func (w *world) start(name string, args ...string) (<-chan error, error) {
	cmd := exec.Command(name, args...) //nolint:noctx,gosec // stopped in order, see below; our own commands
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	gone := make(chan struct{})
	go func() {
		ended <- cmd.Wait()
		close(gone)
	}()
	w.stops = append(w.stops, func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		select {
		case <-gone:
		case <-time.After(patience):
			return errors.Join(fmt.Errorf("%s does not end", name), cmd.Process.Kill())
		}
		return nil
	})
	return ended, nil
}

func (w *world) stop() error {
	var errs []error
	for _, stop := range slices.Backward(w.stops) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// do runs a command in the foreground.
func do(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // our own commands
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

func say(what string) { fmt.Fprintln(os.Stderr, "==>", what) }

func invite(kubeconfig, kubectl string) {
	_, _ = fmt.Fprintf(os.Stdout, `
Weir runs. In another shell:

  export KUBECONFIG=%s
  alias kubectl=%s
  kubectl get rlpol -A
  kubectl edit rlpol -n shop burst

Three requests in any ten seconds pass: repeat it and watch a 200 turn into a 429.

  curl -i -d '{"policies":["shop/burst"],"key":"alice"}' %s/v1/check
  curl -i -d '{"policies":["shop/login"],"key":"bob"}' %[3]s/v1/check
  curl -s %[3]s/v1/policies

Ctrl-C stops everything and leaves nothing behind.
`, kubeconfig, kubectl, httpAddress)
}
