// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

// AwaitBackground waits for the calls that no caller waits for.
func (e *Engine) AwaitBackground() {
	for range cap(e.candidates.background) {
		e.candidates.background <- struct{}{}
	}
	for range cap(e.candidates.background) {
		<-e.candidates.background
	}
}

// FillBackground leaves no room for further calls that no caller waits for.
func (e *Engine) FillBackground() {
	for range cap(e.candidates.background) {
		e.candidates.background <- struct{}{}
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
