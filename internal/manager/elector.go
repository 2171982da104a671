// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/registry"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=weir-system,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=weir-manager,namespace=weir-system,verbs=get;update

// LeaseOptions configure the leader election.
type LeaseOptions struct {
	// Namespace and Name identify the Lease.
	Namespace, Name string
	// Identity is the name of this process, unique among the candidates.
	Identity string
	// Duration is how long candidates wait after the last renewal before they take
	// over.
	Duration time.Duration
	// RenewDeadline is how long a leader that cannot renew the Lease keeps leading.
	RenewDeadline time.Duration
	// RetryPeriod is the time between attempts to acquire or renew the Lease.
	RetryPeriod time.Duration
}

// Validate returns an error unless Duration > RenewDeadline > RetryPeriod with its
// jitter.
func (o LeaseOptions) Validate() error {
	retry := time.Duration(float64(o.RetryPeriod) * leaderelection.JitterFactor)
	if o.RetryPeriod <= 0 || o.RenewDeadline <= retry || o.Duration <= o.RenewDeadline {
		return fmt.Errorf("duration %v must exceed the renew deadline %v, which must exceed the retry period %v with jitter",
			o.Duration, o.RenewDeadline, o.RetryPeriod)
	}
	return nil
}

// reference returns the Lease as the object of events.
func (o LeaseOptions) reference() *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease", Namespace: o.Namespace, Name: o.Name,
	}
}

// service returns the Service of the chart, whose Lease has the same name with a suffix. A SecurityPolicy calls
// Weir by it.
func (o LeaseOptions) service() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: strings.TrimSuffix(o.Name, "-manager")}
}

// elector runs the leader election. While it holds the Lease it also holds a term in the
// registry, in which the controller publishes. The Lease only avoids conflicts; the fencing
// token that stops a former leader is the term, since the registry rejects older ones.
type elector struct {
	options *Options
	writer  *registry.Writer
	terms   *controller.TermTracker
	leading sync.Mutex
}

// NeedLeaderElection returns false: the elector runs in every process.
func (e *elector) NeedLeaderElection() bool { return false }

// Start runs the leader election until ctx ends, again after each lost lease.
func (e *elector) Start(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(rest.AddUserAgent(rest.CopyConfig(e.options.Config), "leader-election"))
	if err != nil {
		return err
	}
	lock := func() *resourcelock.LeaseLock {
		return &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.options.Lease.Namespace, Name: e.options.Lease.Name},
			Client:     clients.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.options.Lease.Identity},
		}
	}
	election, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock(),
		LeaseDuration:   e.options.Lease.Duration,
		RenewDeadline:   e.options.Lease.RenewDeadline,
		RetryPeriod:     e.options.Lease.RetryPeriod,
		ReleaseOnCancel: true,
		Name:            e.options.Lease.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { e.lead(ctx, lock()) },
			OnStoppedLeading: func() { e.options.Logger.Info("Not leading") },
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

// lead holds a term in the registry until ctx ends. After a term is lost to another
// leader, it begins the next one only if the Lease names this process: a process
// that was frozen acts as leader for some time after it was replaced, and two leaders would
// keep deposing each other.
func (e *elector) lead(ctx context.Context, lock resourcelock.Interface) {
	e.leading.Lock() // the previous call may still be returning
	defer e.leading.Unlock()
	e.options.Logger.Info("Started leading")
	for ctx.Err() == nil {
		term, end := context.WithCancel(ctx)
		err := e.writer.Lead(term, func() { e.terms.Begin(term) })
		end()
		if err == nil {
			return
		}
		e.options.Logger.Warn("Lost the term in the registry", "error", err)
		_ = wait.PollUntilContextCancel(ctx, e.options.Lease.RetryPeriod, false, func(ctx context.Context) (bool, error) {
			return e.holds(ctx, lock), nil
		})
	}
}

// holds reports whether the Lease names this process as its current holder.
func (e *elector) holds(ctx context.Context, lock resourcelock.Interface) bool {
	record, _, err := lock.Get(ctx)
	return err == nil && record.HolderIdentity == e.options.Lease.Identity &&
		time.Since(record.RenewTime.Time) < e.options.Lease.RenewDeadline
}
