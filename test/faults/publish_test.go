// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// publisherKills is how many leaders are killed.
const publisherKills = 6

// thresholds are those that one process enforced, in the order of time. Each edit raises the threshold.
type thresholds struct {
	latest atomic.Int64
	wrong  []string
}

// add adds a threshold, which is wrong if it is above the threshold of the newest edit, or below an earlier one.
func (s *thresholds) add(threshold, newest int64) {
	if threshold > newest {
		s.wrong = append(s.wrong, fmt.Sprintf("%d, and the newest edit has %d", threshold, newest))
	}
	if latest := s.latest.Load(); threshold < latest {
		s.wrong = append(s.wrong, fmt.Sprintf("%d after %d", threshold, latest))
	}
	s.latest.Store(threshold)
}

// watch adds what the process enforces until done is closed. A process that is killed has no answer.
func (s *thresholds) watch(done <-chan struct{}, o *operator, w *weir) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		if threshold := w.threshold("edited"); threshold > 0 {
			s.add(threshold, 1+o.started.Load())
		}
	}
}

// editAlways edits without a pause until done is closed. Each edit sends to a receiver, if one waits.
func (o *operator) editAlways(done <-chan struct{}, edited chan<- struct{}) {
	defer close(edited)
	for {
		select {
		case <-done:
			return
		default:
		}
		if err := o.edit(); err != nil {
			o.t.Errorf("edit: %v", err)
			return
		}
		select {
		case edited <- struct{}{}:
		default:
		}
	}
}

// killPublishers kills one leader after the other while edits run, each a different number of edits
// after it began to publish. Redis is frozen before every other kill: that leader has begun to publish
// edits that the API server accepted, and dies while it waits for Redis. Redis may execute its last
// write after its death.
func (o *operator) killPublishers(s *system) {
	g := NewWithT(o.t)
	done := make(chan struct{})
	var wait sync.WaitGroup
	end := sync.OnceFunc(func() { close(done); wait.Wait() })
	defer end()
	edited := make(chan struct{})
	wait.Go(func() { o.editAlways(done, edited) })
	enforced := map[*weir]*thresholds{}
	for _, w := range s.processes {
		seen := &thresholds{}
		enforced[w] = seen
		wait.Go(func() { seen.watch(done, o, w) })
	}
	var unpublished []int64 // edits that the API server had accepted, at each kill
	for kill := range publisherKills {
		leader := o.leader(s)
		before := enforced[leader].latest.Load()
		await(o.t, "the leader to publish", func() bool { return enforced[leader].latest.Load() > before })
		frozen := kill%2 == 1
		if frozen {
			o.redis.Pause()
		}
		for range kill + 2 {
			<-edited
		}
		accepted := o.applied.Load()
		leader.stop(syscall.SIGKILL)
		if frozen {
			o.redis.Resume()
		}
		leader.start() // it enforces what is published, and leads again only when its lease has expired
		published := leader.threshold("edited")
		g.Expect(published).To(BeNumerically(">", 0))
		unpublished = append(unpublished, 1+accepted-published)
	}
	end()
	g.Expect(unpublished).To(ContainElement(BeNumerically(">", 0)), "edits in flight")
	o.t.Logf("%d edits, of which each killed leader had not published %v", o.applied.Load(), unpublished)
	for _, seen := range enforced {
		g.Expect(seen.wrong).To(BeEmpty(), "thresholds that a process enforced")
	}
}

// The checker of thresholds finds those that were never applied, and those that come back.
func TestCheckerOfThresholds(t *testing.T) {
	for name, tc := range map[string]struct {
		seen  []int64
		wrong []string
	}{
		"nothing":           {nil, nil},
		"rising":            {[]int64{1, 1, 2, 5}, nil},
		"an older one":      {[]int64{1, 3, 2, 2}, []string{"2 after 3"}},
		"never applied":     {[]int64{1, 6}, []string{"6, and the newest edit has 5"}},
		"older, then newer": {[]int64{4, 3, 5}, []string{"3 after 4"}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := &thresholds{}
			for _, threshold := range tc.seen {
				seen.add(threshold, 5)
			}
			NewWithT(t).Expect(seen.wrong).To(Equal(tc.wrong))
		})
	}
}
