// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/registry"
)

// leaseName is the name of the Lease that processes compete for.
const leaseName = "weir-manager"

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=weir-system,verbs=get;create;update

// LeaseOptions configure the competition for the lease.
type LeaseOptions struct {
	// Namespace is where the Lease is.
	Namespace string
	// Identity names this process among the candidates.
	Identity string
	// Duration is how long others wait for a leader that is silent.
	Duration time.Duration
	// RenewDeadline is how long a leader goes on that cannot renew.
	RenewDeadline time.Duration
	// RetryPeriod is the time between attempts.
	RetryPeriod time.Duration
}

// Validate says why the times cannot work together.
func (o LeaseOptions) Validate() error {
	retry := time.Duration(float64(o.RetryPeriod) * leaderelection.JitterFactor)
	if o.RetryPeriod <= 0 || o.RenewDeadline <= retry || o.Duration <= o.RenewDeadline {
		return fmt.Errorf("%v must be longer than %v, and that longer than %v with its jitter",
			o.Duration, o.RenewDeadline, o.RetryPeriod)
	}
	return nil
}

// elector competes for the lease and, while it holds it, keeps the registry and
// lets the controller work. The lease only keeps the peace: what makes a
// former leader harmless is that the registry refuses an older term.
type elector struct {
	config  *rest.Config
	lease   LeaseOptions
	writer  *registry.Writer
	terms   *controller.TermTracker
	logger  *slog.Logger
	leading sync.Mutex
}

// NeedLeaderElection tells the manager to run it in every process.
func (e *elector) NeedLeaderElection() bool { return false }

// Start competes until ctx ends. A lease that is lost is competed for again.
func (e *elector) Start(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(rest.AddUserAgent(e.config, "leader-election"))
	if err != nil {
		return err
	}
	lock := func() *resourcelock.LeaseLock {
		return &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.lease.Namespace, Name: leaseName},
			Client:     clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.lease.Identity},
		}
	}
	election, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock(),
		LeaseDuration:   e.lease.Duration,
		RenewDeadline:   e.lease.RenewDeadline,
		RetryPeriod:     e.lease.RetryPeriod,
		ReleaseOnCancel: true,
		Name:            leaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { e.lead(ctx, lock()) },
			OnStoppedLeading: func() { e.logger.Info("Not leading") },
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	for ctx.Err() == nil {
		election.Run(ctx)
	}
	return nil
}

// lead leads until ctx ends. When another leader has taken a later term, it
// takes yet another one only if the lease itself says that it is ours: the
// elector of a process that was frozen believes so for some time after it has
// been replaced, and two leaders would depose each other.
func (e *elector) lead(ctx context.Context, lock resourcelock.Interface) {
	e.leading.Lock() // an earlier one may still be on its way out
	defer e.leading.Unlock()
	e.logger.Info("Leading")
	for ctx.Err() == nil {
		term, end := context.WithCancel(ctx)
		err := e.writer.Lead(term, func() { e.terms.Begin(term) })
		end()
		if err == nil {
			return
		}
		e.logger.Warn("Term in the registry ended", "error", err)
		_ = wait.PollUntilContextCancel(ctx, e.lease.RetryPeriod, false, func(ctx context.Context) (bool, error) {
			return e.holds(ctx, lock), nil
		})
	}
}

// holds reports whether the lease says that this process holds it now.
func (e *elector) holds(ctx context.Context, lock resourcelock.Interface) bool {
	record, _, err := lock.Get(ctx)
	return err == nil && record.HolderIdentity == e.lease.Identity &&
		time.Since(record.RenewTime.Time) < e.lease.RenewDeadline
}
