// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine/series"
	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// Store is a store with which the engine decides.
type Store = store.Store

// HoldLister lists the open holds of a key.
type HoldLister interface {
	// Holds returns up to most open holds, in the order of their ends.
	Holds(ctx context.Context, policy *store.Policy, key store.Key, most int) ([]store.Hold, error)
}

// Options configure an Engine.
type Options struct {
	// Store holds the counters. Required.
	Store Store
	// Holds lists the holds in Store, for Inspect; nil lists none.
	Holds HoldLister
	// RetainSlices ends the slices of this process whose policy was edited; nil without slices.
	RetainSlices func(isCurrent func(*store.Policy) bool)
	// Local decides for policies with failureMode Local while Store does not answer. It must
	// return no error. Required if Store can fail.
	Local Store
	// Replicas returns the number of replicas last known to be alive, this one included. Each
	// has the same share of the limits that Local decides. Nil is 1.
	Replicas func() int
	// Now is the clock by which exceptions end; nil is the clock of this machine.
	Now func() time.Time
	// Draw returns uniformly distributed random numbers for Suppressed limits; nil is
	// math/rand/v2.
	Draw func() uint32
	// Floods bounds the keys that a policy may begin. MemoryLow reports whether the store is nearly
	// full; nil is never.
	Floods    flood.Limits
	MemoryLow func() bool
	// Registerer receives the metrics of decisions. Required.
	Registerer prometheus.Registerer
	// MetricsDetail is the detail of those metrics; "" is DetailPolicy.
	MetricsDetail series.Detail
	// Logger receives degraded decisions, at most one a second, and at level Debug every
	// decision. Required.
	Logger *slog.Logger
	// Tracer creates a span for every decision; nil creates none.
	Tracer trace.Tracer
	// Observer records which keys are denied and blocked; nil records nothing.
	Observer Observer
}

// Engine decides checks against the current snapshot of plans. It is safe for concurrent
// use.
type Engine struct {
	options    Options
	metrics    *metrics
	log        *decisionLog
	candidates *candidateJudge
	active     atomic.Pointer[view]

	views viewMaker // only Use uses it

	explaining chan struct{} // holds one element during an explanation
}

// New returns an engine without plans. Decide returns limiter.ErrNotReady until Use.
func New(o Options) *Engine {
	if o.Draw == nil {
		o.Draw = rand.Uint32
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default
	}
	if o.MemoryLow == nil {
		o.MemoryLow = func() bool { return false }
	}
	if o.Replicas == nil {
		o.Replicas = func() int { return 1 }
	}
	e := &Engine{
		options:    o,
		metrics:    newMetrics(o.Registerer, o.MetricsDetail),
		log:        newDecisionLog(o.Logger),
		candidates: newCandidateJudge(o.Store.Evaluate),
		explaining: make(chan struct{}, 1),
	}
	e.views = viewMaker{series: e.metrics.series, floods: o.Floods, now: o.Now}
	o.Registerer.MustRegister(liveExceptions{snapshot: e.Snapshot, now: e.options.Now})
	return e
}

// Use replaces the snapshot for all decisions that start after it returns. It must not
// be called concurrently with itself.
func (e *Engine) Use(snapshot *index.Snapshot) {
	next, removed := e.views.next(snapshot, e.active.Load())
	e.active.Store(next)
	if e.options.RetainSlices != nil {
		e.options.RetainSlices(next.isCurrent)
	}
	for _, p := range removed {
		e.metrics.series.Remove(p.series)
	}
}

// Snapshot returns the current snapshot, or nil before the first Use.
func (e *Engine) Snapshot() *index.Snapshot {
	if v := e.active.Load(); v != nil {
		return v.snapshot
	}
	return nil
}

// Decide implements limiter.Decider. A store that does not answer is not an error: the
// failure modes of the policies decide, and the decision is marked as degraded.
func (e *Engine) Decide(ctx context.Context, check *limiter.Check) (*limiter.Decision, error) {
	return e.decideAndCount(ctx, check, &checking)
}

// purpose is how the decisions of Decide and of Reserve differ.
type purpose struct {
	span string // name of the trace span
	// setActions sets the actions of the entries, which are checks at first.
	setActions func(*evaluation, *limiter.Check) error
	// end completes the decision; nil has nothing to complete.
	end func(context.Context, *evaluation, *limiter.Decision) error
}

// checking is the purpose of Decide and Explain.
var checking = purpose{span: "decide", setActions: (*evaluation).setHitsActions}

// decideAndCount decides the check. It traces, logs and counts the decision.
func (e *Engine) decideAndCount(ctx context.Context, check *limiter.Check, purpose *purpose) (decision *limiter.Decision, err error) {
	if e.options.Tracer != nil {
		var end func(*limiter.Decision, error)
		ctx, end = startDecision(ctx, e.options.Tracer, purpose.span)
		defer func() { end(decision, err) }()
	}
	start := time.Now() //nolint:forbidigo // for the duration metric and the budget of new keys
	v := e.active.Load()
	if v == nil {
		return nil, limiter.ErrNotReady
	}
	if err := check.Validate(); err != nil {
		return nil, err
	}
	ev := newEvaluation()
	if decision, err = e.decide(ctx, v, check, purpose, ev, start); err != nil {
		return nil, err
	}
	e.log.write(ctx, check, ev.decided(), decision)
	if ev.err != nil && decision.Degraded != "" {
		e.log.degraded(ctx, ev.err, decision)
		e.metrics.countDegraded(ev)
	}
	if len(ev.unchecked) > 0 {
		e.log.unchecked(ev.unchecked)
		e.metrics.countUnchecked(ev, check.IsPeek())
	}
	if !check.IsPeek() {
		ev.markSightings(&check.Attributes)
		e.metrics.count(ev, decision)
		e.metrics.countHolds(ev)
		e.metrics.duration.Observe(time.Since(start).Seconds())
		if e.options.Observer != nil {
			ev.observe(e.options.Observer, start)
		}
		e.candidates.judge(ctx, ev)
	}
	if ev.mustWithdraw(ctx, decision) {
		e.withdraw(ctx, ev)
		return nil, ctx.Err()
	}
	ev.release()
	return decision, nil
}

// decide finds the policies of the valid check, evaluates them and judges the reply. A canceled caller gets
// no decision, unless the decision lists charges that Redis did not confirm.
func (e *Engine) decide(
	ctx context.Context, v *view, check *limiter.Check, purpose *purpose, ev *evaluation, start time.Time,
) (*limiter.Decision, error) {
	check.Attributes.Normalize()
	if err := ev.find(v, check); err != nil {
		return nil, err
	}
	ev.addPolicies(check)
	if err := purpose.setActions(ev, check); err != nil {
		return nil, err
	}
	ev.addCandidates()
	ev.markOverQuota()
	if len(ev.call.Entries) > 0 {
		ev.call.Draw = e.options.Draw()
		ev.protect(e.options.MemoryLow(), start)
		e.evaluate(ctx, ev)
	}
	unsent := e.spendCharges(ctx, ev.charges, start)
	if ev.err != nil && errors.Is(ctx.Err(), context.Canceled) && unsent == nil {
		return nil, ctx.Err()
	}
	if ev.rejectCopiedIDs() {
		e.cancelTaken(ctx, ev)
	}
	ev.countNewKeys(start)
	e.evaluateLocally(ctx, ev)
	decision := ev.judge(check)
	decision.Revision, decision.Unsent = v.snapshot.Revision(), unsent
	if purpose.end != nil {
		return decision, purpose.end(ctx, ev, decision)
	}
	return decision, nil
}

// evaluate lets the store decide the call; if the script fails, a call for each Namespace. It waits for the holds of a
// canceled caller, to withdraw them.
func (e *Engine) evaluate(ctx context.Context, ev *evaluation) {
	if ev.withdraws {
		var cancel context.CancelFunc
		ctx, cancel = withoutCancel(ctx)
		defer cancel()
	}
	ev.run(ctx, e.options.Store.Evaluate)
	if failure, ok := errors.AsType[*store.Error](ev.err); ok && failure.Unwritten {
		ev.evaluateApart(ctx, e.options.Store.Evaluate)
	}
}

// spendCharges makes the charges of a check, even if the caller has canceled: the request is over. It returns
// the charges that Redis did not confirm. charges may be nil.
func (e *Engine) spendCharges(ctx context.Context, charges *operations, start time.Time) []limiter.Commit {
	if charges == nil || e.charge(context.WithoutCancel(ctx), charges, start) == nil {
		return nil
	}
	return charges.unsent()
}

// charge makes the charges and counts them.
func (e *Engine) charge(ctx context.Context, charges *operations, start time.Time) error {
	charges.call.Draw = e.options.Draw()
	charges.protect(e.options.MemoryLow(), start)
	if err := e.change(ctx, charges, "charge"); err != nil {
		return err
	}
	charges.countNewKeys(start)
	e.metrics.countCharges(charges)
	return nil
}

// withoutCancel returns a context that ends only at the deadline of ctx, if it has one.
func withoutCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, hasDeadline := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if !hasDeadline {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline)
}

// cancelTaken cancels the holds that a rejected reserve has taken, beside the holds of the open reservation
// with its ID. If Redis does not answer, they end by themselves.
func (e *Engine) cancelTaken(ctx context.Context, ev *evaluation) {
	taken := ev.cancellations()
	_ = e.change(context.WithoutCancel(ctx), taken, "cancel")
	taken.release()
}

// mustWithdraw reports whether the caller has canceled a reserve that it cannot repeat. It still gets a decision with
// charges that Redis did not confirm.
func (ev *evaluation) mustWithdraw(ctx context.Context, d *limiter.Decision) bool {
	return ev.withdraws && d.Unsent == nil && errors.Is(ctx.Err(), context.Canceled)
}

// withdraw cancels the holds of a reserve whose caller has canceled: it does not learn of them, so it cannot commit
// them. They are counted as reserved and canceled.
func (e *Engine) withdraw(ctx context.Context, ev *evaluation) {
	taken := ev.cancellations()
	if e.change(context.WithoutCancel(ctx), taken, "withdraw") == nil {
		e.metrics.countCommits(taken)
	}
	taken.release()
	ev.release()
}

// cancellations returns commits of 0 for the holds that the call has taken.
func (ev *evaluation) cancellations() *operations {
	taken := newOperations()
	for _, op := range ev.all() {
		if r := op.reply; r != nil && r.Hold == store.HoldTaken {
			entry := *op.entry
			entry.Action, entry.Cost = store.Commit, 0
			taken.add(*op.participant, entry)
		}
	}
	return taken
}

// evaluateLocally lets the policies with failureMode Local decide, if the store did not answer.
func (e *Engine) evaluateLocally(ctx context.Context, ev *evaluation) {
	if ev.err != nil && ev.needsLocal() {
		ev.local = ev.localOperations(int64(e.options.Replicas()))
		ev.local.run(ctx, e.options.Local.Evaluate)
	}
}

// change evaluates a call that is never denied, such as a commit; an empty call changes nothing. It returns
// limiter.ErrStoreUnavailable if Redis does not answer, and the error of a canceled context.
func (e *Engine) change(ctx context.Context, o *operations, name string) error {
	if len(o.call.Entries) == 0 {
		return nil
	}
	start := time.Now()    //nolint:forbidigo // for the ends of blocks
	o.call.Uncached = true // a remembered denial does not answer it
	o.protectIDs(e.options.MemoryLow(), start)
	o.run(ctx, e.options.Store.Evaluate)
	switch {
	case o.err == nil:
		o.countIDs(start)
		o.applySubstitutes()
		if e.options.Observer != nil {
			o.observeBlocks(e.options.Observer, start)
		}
		e.log.changed(ctx, name, o)
		e.candidates.change(ctx, o)
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	}
	e.log.changeFailed(name, o.err)
	return fmt.Errorf("%w: %w", limiter.ErrStoreUnavailable, o.err)
}
