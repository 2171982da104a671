// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The events of denials. Their texts are constant, because Kubernetes counts equal events as one series.
var (
	denialsBegan = eventContent{
		corev1.EventTypeNormal, "DenialsBegan", "The policy denies requests. List their keys with: kubectl weir top",
	}
	denialsEnded = eventContent{
		corev1.EventTypeNormal, "DenialsEnded", "The policy has denied no request for at least a minute.",
	}
)

// Denials reads which policies deny requests, and remembers which of them were announced by events.
type Denials interface {
	// Denials returns the policies that replicas have reported to deny requests, for some minutes.
	Denials(ctx context.Context) ([]plan.DenialReport, error)
	// Announced returns the policies that were announced to have begun to deny requests, and not to have
	// ended.
	Announced(ctx context.Context) ([]plan.Identity, error)
	// Announce records the policies whose events follow.
	Announce(ctx context.Context, began, ended []plan.Identity) error
}

// denialEvents writes the events of denials. Only its goroutine uses it.
type denialEvents struct {
	reconciler *Reconciler
	now        func() time.Time

	term    int64 // the term that the tracker belongs to; 0 for none
	tracker *denialTracker
	failed  bool // the last round failed
}

// writeDenialEvents writes the events of denials, a round every denialInterval while this process leads. It
// ends with ctx.
func (r *Reconciler) writeDenialEvents(ctx context.Context) error {
	e := &denialEvents{reconciler: r, now: time.Now} //nolint:forbidigo // the age of denials
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if t, leading := r.Terms.running(); leading {
			e.runRound(ctx, t)
		}
	}, denialInterval)
	return nil
}

// runRound logs the first of several failures.
func (e *denialEvents) runRound(ctx context.Context, t term) {
	bound, release := t.bind(ctx)
	defer release()
	err := e.round(bound, t)
	if err != nil && !e.failed && bound.Err() == nil {
		log.FromContext(ctx).Error(err, "Failed to write the events of denials")
	}
	e.failed = err != nil
}

// round reads the reports and writes the events that are due. The next leader may miss an event if this one
// ends in between, and repeats none.
func (e *denialEvents) round(ctx context.Context, t term) error {
	reports, err := e.reconciler.Denials.Denials(ctx)
	if err != nil {
		if e.tracker != nil {
			e.tracker.skip(e.now())
		}
		return err
	}
	if e.term != t.number {
		announced, err := e.reconciler.Denials.Announced(ctx)
		if err != nil {
			return err
		}
		e.term, e.tracker = t.number, newDenialTracker(e.now(), announced, reports)
	}
	e.tracker.observe(e.now(), reports)
	due, err := e.due(ctx)
	if err != nil || len(due) == 0 {
		return err
	}
	if err := e.reconciler.Denials.Announce(ctx, identitiesOf(due, true), identitiesOf(due, false)); err != nil {
		return err
	}
	for _, d := range due {
		e.tracker.announce(d.Identity, d.denies, e.now())
		if d.policy != nil {
			event := denialsEnded
			if d.denies {
				event = denialsBegan
			}
			e.reconciler.recorder.Eventf(d.policy, nil, event.eventType, event.reason, "Decide", "%s", event.message)
		}
	}
	return nil
}

// dueAnnouncement is one announcement about a policy.
type dueAnnouncement struct {
	plan.Identity

	denies bool
	policy *v1alpha1.RateLimitPolicy // nil for a policy that is gone, which gets no event
}

// due returns the next announcements: of at most denialBatch policies, maxDenialEvents of which get an event.
func (e *denialEvents) due(ctx context.Context) (due []dueAnnouncement, err error) {
	events := 0
	for _, p := range e.tracker.due(e.now(), denialBatch) {
		policy, err := e.policyOf(ctx, p)
		if err != nil {
			return nil, err
		}
		if policy == nil {
			due = append(due, dueAnnouncement{Identity: p})
			continue
		}
		if events++; events > maxDenialEvents {
			break
		}
		due = append(due, dueAnnouncement{Identity: p, denies: e.tracker.denies(p), policy: policy})
	}
	return due, nil
}

// policyOf returns the policy, nil if it is gone.
func (e *denialEvents) policyOf(ctx context.Context, p plan.Identity) (*v1alpha1.RateLimitPolicy, error) {
	name := nameOf(p.ID)
	if !e.reconciler.Namespaces.Include(name.Namespace) {
		return nil, nil
	}
	policy := &v1alpha1.RateLimitPolicy{}
	err := e.reconciler.client.Get(ctx, name, policy)
	switch {
	case apierrors.IsNotFound(err), err == nil && string(policy.UID) != p.UID:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return policy, nil
}

// identitiesOf returns the policies that begin to deny requests, or that end.
func identitiesOf(due []dueAnnouncement, denies bool) (list []plan.Identity) {
	for _, d := range due {
		if d.denies == denies {
			list = append(list, d.Identity)
		}
	}
	return list
}
