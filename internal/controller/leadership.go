// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"sync"
)

// Leadership says when this process leads.
type Leadership interface {
	// Term returns the context of the running term, which ends with it, and nil
	// before the first.
	Term() context.Context

	// Won is sent to, coalesced, when a term has begun. The controller is the only
	// one to receive from it.
	Won() <-chan struct{}
}

// Terms is a Leadership that is told of each term. Its Begin is the
// OnStartedLeading of a leader election.
type Terms struct {
	won chan struct{}

	mu   sync.Mutex
	term context.Context
}

// NewTerms returns a Leadership that does not lead yet.
func NewTerms() *Terms { return &Terms{won: make(chan struct{}, 1)} }

// Begin starts a term, which lasts as long as the context does.
func (t *Terms) Begin(term context.Context) {
	t.mu.Lock()
	t.term = term
	t.mu.Unlock()
	select {
	case t.won <- struct{}{}:
	default: // a win that nobody has taken note of yet covers this one
	}
}

// Term implements Leadership.
func (t *Terms) Term() context.Context {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.term
}

// Won implements Leadership.
func (t *Terms) Won() <-chan struct{} { return t.won }

// errTermEnded is the cause of death of what a term has left undone.
var errTermEnded = errors.New("the term has ended")

// within binds ctx to the running term. It returns false if none runs.
func within(ctx context.Context, l Leadership) (bound context.Context, release func(), leading bool) {
	term := l.Term()
	if term == nil || term.Err() != nil {
		return nil, nil, false
	}
	bound, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(term, func() { cancel(errTermEnded) })
	return bound, func() { unhook(); cancel(nil) }, true
}
