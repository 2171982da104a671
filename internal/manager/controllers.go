// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/gatewayapi"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/registry"
	"github.com/weir-dev/weir/internal/limiter/traffic"
	"github.com/weir-dev/weir/internal/webhook/intake"
)

const (
	// apiRetry is the time between attempts to reach the API server, at start and after an outage.
	apiRetry = time.Second
	// apiTimeout bounds one attempt, and so how much it delays the end of the process.
	apiTimeout = 2 * time.Second
	// cacheSyncTimeout is practically infinite: an outage of the API server while the
	// caches fill must not end the manager.
	cacheSyncTimeout = 10 * 365 * 24 * time.Hour
	// backOffReset is how long a container must run for the kubelet to restart it without
	// the back-off of earlier restarts.
	backOffReset = 10 * time.Minute
)

// controllers is the Kubernetes half: one controller-runtime manager per process.
// If it ends before the process does, decisions continue. Once the process is older than
// backOffReset, Err returns the cause. That fails /healthz, so that the kubelet restarts the
// container gracefully. Earlier restarts would increase the kubelet's back-off, and no
// decision is made during a back-off.
type controllers struct {
	options  *Options
	intake   *intake.Intake
	name     *namer
	policies *PolicyMetrics
	writer   *registry.Writer
	traffic  *traffic.Reader
	now      func() time.Time
	started  time.Time // of the process
	failure  atomic.Pointer[error]

	reconciler atomic.Pointer[controller.Reconciler] // nil before the manager runs
}

// Err returns why the manager ended. It returns nil while the manager runs and in a process
// younger than backOffReset.
func (c *controllers) Err() error {
	if err := c.failure.Load(); err != nil && c.now().Sub(c.started) > backOffReset {
		return *err
	}
	return nil
}

// unready returns the policies that are not Ready.
func (c *controllers) unready() plan.Unready {
	if r := c.reconciler.Load(); r != nil {
		return r.Unready()
	}
	return plan.Unready{}
}

// run waits for the API server without a time limit, then runs the manager until ctx
// ends.
func (c *controllers) run(ctx context.Context) error {
	mapper, served := c.awaitAPI(ctx)
	if !served || !c.name.await(ctx) {
		return nil
	}
	err := c.manage(ctx, mapper)
	if ctx.Err() == nil {
		c.fail(cmp.Or(err, errors.New("the controller manager ended without an error")))
		<-ctx.Done()
	}
	return nil
}

func (c *controllers) fail(err error) {
	c.failure.Store(&err)
	c.options.Logger.Error("Controller manager ended; decisions continue", "error", err)
}

// awaitAPI waits until the API server serves every kind of Weir, since it begins to serve them one by one, and returns the
// mapper that has found them. It returns false if ctx ends first.
func (c *controllers) awaitAPI(ctx context.Context) (mapper meta.RESTMapper, served bool) {
	config := rest.CopyConfig(c.options.Config)
	config.Timeout = apiTimeout
	served = askAPI(ctx, c.options.Logger, "Waiting for the API server; decisions continue", func(context.Context) (err error) {
		if mapper == nil {
			if mapper, err = newMapper(config); err != nil {
				return err
			}
		}
		return findKinds(mapper)
	})
	return mapper, served
}

func newMapper(config *rest.Config) (meta.RESTMapper, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return apiutil.NewDynamicRESTMapper(config, client)
}

// findKinds returns an error with the kinds of Weir that the mapper does not find.
func findKinds(mapper meta.RESTMapper) error {
	var missing []string
	for _, kind := range []string{"RateLimitException", "RateLimitKeyGroup", "RateLimitPolicy"} {
		_, err := mapper.RESTMapping(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), v1alpha1.GroupVersion.Version)
		if meta.IsNoMatchError(err) {
			missing = append(missing, kind)
		} else if err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("the API server does not serve %s: apply the CRDs of this release", strings.Join(missing, ", "))
}

// askAPI calls ask until it succeeds, and logs each new error with the message. It returns false
// if ctx ends first.
func askAPI(ctx context.Context, logger *slog.Logger, message string, ask func(context.Context) error) bool {
	lastLogged := ""
	err := wait.PollUntilContextCancel(ctx, apiRetry, true, func(ctx context.Context) (bool, error) {
		err := ask(ctx)
		if err != nil && err.Error() != lastLogged {
			lastLogged = err.Error()
			logger.Warn(message, "error", err)
		}
		return err == nil, nil
	})
	return err == nil
}

func (c *controllers) manage(ctx context.Context, mapper meta.RESTMapper) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	room := newKeyRoom(c.options.Budgets)
	caches := cacheOptions(c.options.Namespaces, room)
	var err error
	if caches.HTTPClient, err = cacheClient(c.options.Config, c.options.Logger); err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(c.options.Config, ctrl.Options{
		Scheme: scheme,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			return mapper, nil
		},
		Metrics:    metricsserver.Options{BindAddress: "0"}, // served with the metrics of the decisions
		Cache:      caches,
		Client:     clientOptions(c.options.Namespaces),
		Controller: config.Controller{CacheSyncTimeout: cacheSyncTimeout},
		// The elector does this: losing the lease must not end the manager.
		LeaderElection: false,
	})
	if err != nil {
		return err
	}
	if err := room.follow(ctx, mgr.GetCache()); err != nil {
		return err
	}
	gateways := c.newGateways(caches.HTTPClient)
	if err := mgr.Add(manager.RunnableFunc(gateways.Start)); err != nil {
		return err
	}
	terms := controller.NewTermTracker()
	reconciler := &controller.Reconciler{
		Publisher: c.writer, Terms: terms, Tenancy: c.options.Tenancy, Namespaces: c.options.Namespaces,
		Lease: c.options.Lease.reference(), Traffic: c.traffic, Denials: c.traffic, Gateways: gateways,
		RedisTime: c.options.RedisTime,
	}
	if err := reconciler.SetupWithManager(mgr); err != nil {
		return err
	}
	c.reconciler.Store(reconciler)
	if err := mgr.Add(&elector{options: c.options, writer: c.writer, terms: terms}); err != nil {
		return err
	}
	if c.options.Webhook.Address != "" {
		if err := addWebhook(ctx, mgr, c.options, c.intake); err != nil {
			return err
		}
	}
	c.policies.source.Store(&policySource{ctx: ctx, term: terms.Term, policies: mgr.GetClient()})
	return mgr.Start(ctx)
}

// newGateways returns the objects of the Gateway API, which are read once a policy needs them.
func (c *controllers) newGateways(client *http.Client) *gatewayapi.Cache {
	return gatewayapi.New(gatewayapi.Options{
		Config: c.options.Config, HTTPClient: client, Namespaces: c.options.Namespaces.Watched,
		Services: []types.NamespacedName{c.options.Lease.service()}, Logger: c.options.Logger,
	})
}
