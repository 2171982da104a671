// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

// AwaitBackground waits for the calls that no caller waits for.
func (e *Engine) AwaitBackground() {
	for range cap(e.trials.background) {
		e.trials.background <- struct{}{}
	}
	for range cap(e.trials.background) {
		<-e.trials.background
	}
}

// FillBackground leaves no room for further calls that no caller waits for.
func (e *Engine) FillBackground() {
	for range cap(e.trials.background) {
		e.trials.background <- struct{}{}
	}
}

// CachedRequests returns how many requested limits of the policy are cached.
func (e *Engine) CachedRequests(id string) (n int) {
	v := e.active.Load()
	used := v.policies.Get(v.snapshot.Lookup(id)).requested.used.Load()
	if used == nil {
		return 0
	}
	used.all.Range(func(any, any) bool {
		n++
		return true
	})
	return n
}

// Prepare compiles all expressions of the current plans, and derives the limits of all exceptions.
func (e *Engine) Prepare() {
	for _, p := range e.active.Load().policies.All() {
		for _, condition := range p.conditions {
			if condition != nil {
				_, _ = condition.compile()
			}
		}
		for _, part := range p.keyExpressions {
			if part != nil {
				_, _ = part.compile()
			}
		}
		for i := range p.overrides {
			if when := p.overrides[i].when; when != nil {
				_, _ = when.compile()
			}
		}
		if p.cost != nil {
			_, _ = p.cost()
		}
		if all := p.exceptions.Load(); all != nil {
			for _, exception := range all.byKey {
				exception.variantOf(p.plan, p.base)
			}
		}
	}
}
