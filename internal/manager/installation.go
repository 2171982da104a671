// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/weir-dev/weir/internal/limiter/registry"
)

// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=weir-system,namespace=weir-system,verbs=get

// namer finds the name of an installation that was not given one: the UID of the Namespace of
// its Lease and the name of the Lease, which no other cluster and no other release has.
type namer struct {
	options      *Options
	installation *registry.Installation
	done         chan struct{} // closed once the name is known
}

func newNamer(o *Options, installation *registry.Installation) *namer {
	n := &namer{options: o, installation: installation, done: make(chan struct{})}
	if installation.Name() != "" {
		close(n.done)
	}
	return n
}

// run asks the API server until it answers or ctx ends.
func (n *namer) run(ctx context.Context) error {
	if n.installation.Name() != "" {
		return nil
	}
	if n.options.Config == nil {
		n.options.Logger.Warn("The name of the installation is unknown without an API server; following the registry that is found. Set --installation to its name")
		return nil
	}
	config := rest.AddUserAgent(rest.CopyConfig(n.options.Config), "installation")
	config.Timeout = apiTimeout
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	logger := n.options.Logger.With("namespace", n.options.Lease.Namespace)
	if askAPI(ctx, logger, "Waiting for the UID of the Lease's Namespace, which names the installation", func(ctx context.Context) error {
		namespace, err := clients.CoreV1().Namespaces().Get(ctx, n.options.Lease.Namespace, metav1.GetOptions{})
		if err == nil {
			n.installation.Resolve(string(namespace.UID) + "." + n.options.Lease.Name)
		}
		return err
	}) {
		n.options.Logger.Info("Belonging to an installation", "installation", n.installation.Name())
		close(n.done)
	}
	return nil
}

// await waits until the name is known. It returns false if ctx ends first.
func (n *namer) await(ctx context.Context) bool {
	select {
	case <-n.done:
		return true
	case <-ctx.Done():
		return false
	}
}
