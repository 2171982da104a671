// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"sync"
	"testing"
	"time"
)

// Pauses are the times at which other processes kept this one waiting for longer than a limit. They are the
// control of a test with a timeout that the product or a page sets: a call that takes longer only counts if
// the machine was free meanwhile.
type Pauses struct {
	mu  sync.Mutex
	all []struct{ from, to time.Time }
}

// WatchPauses records pauses above the limit until the test ends.
func WatchPauses(tb testing.TB, limit time.Duration) *Pauses {
	tb.Helper()
	p, stop, ended := &Pauses{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-stop:
				return
			case <-ticker.C:
				if now := time.Now(); now.Sub(last) > limit {
					p.add(last, now)
				}
			}
		}
	}()
	tb.Cleanup(func() { close(stop); <-ended })
	return p
}

func (p *Pauses) add(from, to time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, struct{ from, to time.Time }{from, to})
}

// Within reports whether the machine paused at a time between the two.
func (p *Pauses) Within(from, to time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pause := range p.all {
		if pause.from.Before(to) && from.Before(pause.to) {
			return true
		}
	}
	return false
}
