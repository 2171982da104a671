// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"sync"
)

// TermTracker holds the running leadership term of this process. Its Begin is
// called from the OnStartedLeading of a leader election.
type TermTracker struct {
	begun chan struct{}

	mu   sync.Mutex
	term context.Context
}

// NewTermTracker returns a TermTracker without a term.
func NewTermTracker() *TermTracker { return &TermTracker{begun: make(chan struct{}, 1)} }

// Begin starts a term, which lasts until the context ends.
func (t *TermTracker) Begin(term context.Context) {
	t.mu.Lock()
	t.term = term
	t.mu.Unlock()
	select {
	case t.begun <- struct{}{}:
	default: // a value that was not received yet covers this term too
	}
}

// Term returns the context of the latest term, which may have ended; nil before
// the first.
func (t *TermTracker) Term() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.term
}

// Begun receives a value, coalesced, after a term has begun. Only the controller
// receives from it.
func (t *TermTracker) Begun() <-chan struct{} { return t.begun }

// errTermEnded is the cancellation cause of work that a term left unfinished.
var errTermEnded = errors.New("the leadership term has ended")

// bindToTerm returns a context that also ends with the running term. It returns
// false if no term is running.
func bindToTerm(ctx context.Context, t *TermTracker) (bound context.Context, release func(), leading bool) {
	term := t.Term()
	if term == nil || term.Err() != nil {
		return nil, nil, false
	}
	bound, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(term, func() { cancel(errTermEnded) })
	return bound, func() { unhook(); cancel(nil) }, true
}
