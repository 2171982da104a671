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

// leader competes for the lease and, while it holds it, keeps the registry and
// lets the controller work. The lease only keeps the peace: what makes a
// former leader harmless is that the registry refuses an older term.
type leader struct {
	config    *rest.Config
	lease     LeaseOptions
	publisher *registry.Writer
	terms     *controller.TermTracker
	logger    *slog.Logger
	leading   sync.Mutex
}

// NeedLeaderElection tells the manager to run it in every process.
func (l *leader) NeedLeaderElection() bool { return false }

// Start competes until ctx ends. A lease that is lost is competed for again.
func (l *leader) Start(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(rest.AddUserAgent(l.config, "leader-election"))
	if err != nil {
		return err
	}
	lock := func() *resourcelock.LeaseLock {
		return &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: l.lease.Namespace, Name: leaseName},
			Client:     clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.lease.Identity},
		}
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock(),
		LeaseDuration:   l.lease.Duration,
		RenewDeadline:   l.lease.RenewDeadline,
		RetryPeriod:     l.lease.RetryPeriod,
		ReleaseOnCancel: true,
		Name:            leaseName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { l.lead(ctx, lock()) },
			OnStoppedLeading: func() { l.logger.Info("Not leading") },
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	for ctx.Err() == nil {
		elector.Run(ctx)
	}
	return nil
}

// lead leads until ctx ends. When another leader has taken a later term, it
// takes yet another one only if the lease itself says that it is ours: the
// elector of a process that was frozen believes so for some time after it has
// been replaced, and two leaders would depose each other.
func (l *leader) lead(ctx context.Context, lock resourcelock.Interface) {
	l.leading.Lock() // an earlier one may still be on its way out
	defer l.leading.Unlock()
	l.logger.Info("Leading")
	for ctx.Err() == nil {
		term, end := context.WithCancel(ctx)
		err := l.publisher.Lead(term, func() { l.terms.Begin(term) })
		end()
		if err == nil {
			return
		}
		l.logger.Warn("Term in the registry ended", "error", err)
		_ = wait.PollUntilContextCancel(ctx, l.lease.RetryPeriod, false, func(ctx context.Context) (bool, error) {
			return l.holds(ctx, lock), nil
		})
	}
}

// holds reports whether the lease says that this process holds it now.
func (l *leader) holds(ctx context.Context, lock resourcelock.Interface) bool {
	record, _, err := lock.Get(ctx)
	return err == nil && record.HolderIdentity == l.lease.Identity &&
		time.Since(record.RenewTime.Time) < l.lease.RenewDeadline
}
