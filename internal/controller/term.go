// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TermTracker holds the running leadership term of this process. Its Begin is
// called from the OnStartedLeading of a leader election.
type TermTracker struct {
	started chan struct{}

	mu     sync.Mutex
	latest term
}

// term is one leadership term of this process.
type term struct {
	number int64 // rises from term to term; 0 for none
	ctx    context.Context
}

// NewTermTracker returns a TermTracker without a term.
func NewTermTracker() *TermTracker { return &TermTracker{started: make(chan struct{}, 1)} }

// Begin starts a term, which lasts until the context ends. The context of the last term
// must have ended.
func (t *TermTracker) Begin(ctx context.Context) {
	t.mu.Lock()
	t.latest = term{number: t.latest.number + 1, ctx: ctx}
	t.mu.Unlock()
	select {
	case t.started <- struct{}{}:
	default: // a value that was not received yet covers this term too
	}
}

// Term returns the context of the latest term, which may have ended; nil before
// the first.
func (t *TermTracker) Term() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.latest.ctx
}

// Started receives a value, coalesced, after a term has begun. Only the controller
// receives from it.
func (t *TermTracker) Started() <-chan struct{} { return t.started }

// running returns the running term, or false if this process does not lead.
func (t *TermTracker) running() (term, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.latest, t.latest.number > 0 && !t.latest.ended()
}

func (t term) ended() bool { return t.ctx.Err() != nil }

// bind returns a context that ends with the term and with ctx. It is a child of the term's
// context, so that it has ended before the next term begins.
func (t term) bind(ctx context.Context) (bound context.Context, release func()) {
	bound, cancel := context.WithCancelCause(log.IntoContext(t.ctx, log.FromContext(ctx)))
	unhook := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return bound, func() { unhook(); cancel(nil) }
}
