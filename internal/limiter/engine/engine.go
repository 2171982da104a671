// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// Store holds the counters and blocks of keys. script.Store holds them in Redis.
type Store interface {
	// Evaluate decides a call in one atomic step.
	Evaluate(ctx context.Context, call *script.Call) (*script.Reply, error)
	// Reset, Block and Unblock change the state of one key of one policy.
	Reset(ctx context.Context, policy *script.Policy, key script.Key) (bool, error)
	Block(ctx context.Context, policy *script.Policy, key script.Key, length time.Duration) error
	Unblock(ctx context.Context, policy *script.Policy, key script.Key) (bool, error)
}

// Options configure an Engine.
type Options struct {
	// Store holds the counters. Required.
	Store Store
	// Draw returns random numbers, all equally likely, by which Suppressed limits
	// shed. Nil is math/rand/v2.
	Draw func() uint32
	// Registerer receives the metrics of decisions. Required.
	Registerer prometheus.Registerer
	// Logger receives degraded decisions, rate-limited, and at level Debug every
	// decision. Required.
	Logger *slog.Logger
	// StoreTimeout is the longest a decision waits for the Store; after it
	// the failure mode of the policies decides. Required.
	StoreTimeout time.Duration
	// Tracer makes a span of every decision; nil makes none.
	Tracer trace.Tracer
}

// Engine decides checks against the current snapshot of plans. It may be used
// by any number of goroutines.
type Engine struct {
	store        Store
	draw         func() uint32
	storeTimeout time.Duration
	metrics      *metrics
	log          *decisionLog
	tracer       trace.Tracer
	current      atomic.Pointer[current]
}

// current is what decisions are made with: a view, and where they are counted.
type current struct {
	*view
	series viewMetrics
}

// New returns an engine without plans; Use gives it some.
func New(o Options) *Engine {
	if o.Draw == nil {
		o.Draw = rand.Uint32
	}
	return &Engine{
		store:        o.Store,
		draw:         o.Draw,
		storeTimeout: o.StoreTimeout,
		metrics:      newMetrics(o.Registerer),
		log:          newDecisionLog(o.Logger),
		tracer:       o.Tracer,
	}
}

// Use makes the snapshot the one that later decisions are made with. It must
// not be called concurrently with itself.
func (e *Engine) Use(snapshot *plan.Snapshot) {
	previous := e.current.Load()
	if previous == nil {
		previous = &current{}
	}
	next := &current{view: newView(snapshot, previous.view)}
	next.series = e.metrics.of(next.view, previous.series)
	e.current.Store(next)
	if previous.view != nil {
		e.metrics.forget(previous.view, next.view)
	}
}

// Snapshot returns the snapshot in use, nil before the first Use.
func (e *Engine) Snapshot() *plan.Snapshot {
	if v := e.current.Load(); v != nil {
		return v.snapshot
	}
	return nil
}

// Decide answers the check. An error is the caller's fault (*FieldError,
// *UnknownPolicyError), ErrNotReady, or the end of ctx by cancellation; a
// Redis that does not answer is not an error but a degraded decision.
func (e *Engine) Decide(ctx context.Context, check *limiter.Check) (decision *limiter.Decision, err error) {
	if e.tracer != nil {
		var end func(*limiter.Decision, error)
		ctx, end = startSpan(ctx, e.tracer)
		defer func() { end(decision, err) }()
	}
	start := time.Now() //nolint:forbidigo // measures, decides nothing
	v := e.current.Load()
	if v == nil {
		return nil, limiter.ErrNotReady
	}
	if err := check.Validate(); err != nil {
		return nil, err
	}
	check.Attributes.Normalize()
	policies, failures, err := v.find(check)
	if err != nil {
		return nil, err
	}
	evaluation := newEvaluation(check, policies, failures)
	if len(evaluation.call.Entries) > 0 {
		evaluation.call.Draw = e.draw()
		evaluation.reply, err = e.evaluate(ctx, &evaluation.call)
	}
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	decision = evaluation.decide(err)
	decision.Revision = v.snapshot.Revision()
	if check.Charges != nil {
		decision.Descriptors = evaluation.descriptorStates(decision, len(check.Charges))
	}
	if decision.Degraded != "" {
		e.log.degraded(err, decision)
	}
	e.log.write(ctx, check, evaluation, decision)
	if !check.IsPeek() {
		e.metrics.count(evaluation, v.series, decision, err)
		e.metrics.duration.Observe(time.Since(start).Seconds())
	}
	return decision, nil
}

// callerMargin is what is left of the caller's own deadline for the way back.
const callerMargin = 2 * time.Millisecond

func (e *Engine) evaluate(ctx context.Context, call *script.Call) (*script.Reply, error) {
	ctx, cancel := e.withBudget(ctx)
	defer cancel()
	return e.store.Evaluate(ctx, call)
}

// withBudget bounds how long Redis is waited for.
func (e *Engine) withBudget(ctx context.Context) (context.Context, context.CancelFunc) {
	budget := e.storeTimeout
	if deadline, ok := ctx.Deadline(); ok {
		budget = min(budget, time.Until(deadline)-callerMargin)
	}
	return context.WithTimeout(ctx, budget)
}
