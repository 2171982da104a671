// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/registry"
)

const (
	// apiRetry is the time between attempts to reach the API server at start.
	apiRetry = time.Second
	// apiTimeout bounds one attempt, and so the time an end of the process waits.
	apiTimeout = 2 * time.Second
	// cacheSyncTimeout is for ever: an API server that goes away while the caches
	// fill is waited for, as at any other time.
	cacheSyncTimeout = 10 * 365 * 24 * time.Hour
)

// controllers are the Kubernetes half: one controller-runtime manager in the
// life of a process. Should it end before the process does, decisions go on
// and Err says why, which fails /healthz, so that the kubelet replaces the pod
// in good order.
type controllers struct {
	config  *rest.Config
	tenancy compile.Tenancy
	lease   LeaseOptions
	webhook WebhookOptions
	writer  *registry.Writer
	logger  *slog.Logger
	failure atomic.Pointer[error]
}

// Err says why the manager ended; nil while it has not.
func (c *controllers) Err() error {
	if err := c.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// run runs the manager until ctx ends. It starts once the API server answers,
// however long that takes.
func (c *controllers) run(ctx context.Context) error {
	if !c.awaitAPI(ctx) {
		return nil
	}
	err := c.manage(ctx)
	if ctx.Err() == nil {
		c.fail(cmp.Or(err, errors.New("the controller manager ended")))
		<-ctx.Done()
	}
	return nil
}

func (c *controllers) fail(err error) {
	c.failure.Store(&err)
	c.logger.Error("The controller manager ended; decisions go on", "error", err)
}

// awaitAPI waits until the API server knows the resource.
func (c *controllers) awaitAPI(ctx context.Context) bool {
	lastLogged := ""
	config := rest.CopyConfig(c.config)
	config.Timeout = apiTimeout
	err := wait.PollUntilContextCancel(ctx, apiRetry, true, func(context.Context) (bool, error) {
		client, err := discovery.NewDiscoveryClientForConfig(config)
		if err == nil {
			_, err = client.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
		}
		if err != nil && err.Error() != lastLogged {
			lastLogged = err.Error()
			c.logger.Warn("Waiting for the API server; decisions do not", "error", err)
		}
		return err == nil, nil
	})
	return err == nil
}

func (c *controllers) manage(ctx context.Context) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(c.config, ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"}, // served beside those of decisions
		Cache:      cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Controller: config.Controller{CacheSyncTimeout: cacheSyncTimeout},
		// Leadership is the leader's business, see there.
		LeaderElection: false,
	})
	if err != nil {
		return err
	}
	terms := controller.NewTermTracker()
	reconciler := &controller.Reconciler{Publisher: c.writer, Terms: terms, Tenancy: c.tenancy}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return err
	}
	if err := mgr.Add(&elector{
		config: c.config, lease: c.lease, writer: c.writer, terms: terms, logger: c.logger,
	}); err != nil {
		return err
	}
	if c.webhook.Address != "" {
		if err := addWebhook(mgr, c.webhook, c.tenancy, c.logger); err != nil {
			return err
		}
	}
	return mgr.Start(ctx)
}
