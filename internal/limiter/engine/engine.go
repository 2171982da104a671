// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
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
	options Options
	metrics *metrics
	log     *decisionLog
	trials  *trialRunner
	active  atomic.Pointer[preparedSnapshot]

	preparer preparer // only Use uses it

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
		trials:     newTrialRunner(o.Store.Evaluate),
		explaining: make(chan struct{}, 1),
	}
	e.preparer = preparer{series: e.metrics.series, floods: o.Floods, now: o.Now}
	o.Registerer.MustRegister(liveExceptions{snapshot: e.Snapshot, now: e.options.Now})
	return e
}

// Use replaces the snapshot for all decisions that start after it returns. It must not
// be called concurrently with itself.
func (e *Engine) Use(snapshot *index.Snapshot) {
	next, removed := e.preparer.next(snapshot, e.active.Load())
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

// begin returns the current snapshot for a request, or the error of one that is not valid.
func (e *Engine) begin(request interface{ Validate() error }) (*preparedSnapshot, error) {
	v := e.active.Load()
	if v == nil {
		return nil, limiter.ErrNotReady
	}
	return v, request.Validate()
}
