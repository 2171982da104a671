// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/seeds"
)

// process is one of several that share Redis.
type process struct {
	*fixture

	fewest int // replicas, of all numbers that it has had
}

// admission is an admitted cost.
type admission struct {
	at   time.Time
	cost int64
}

// The promise: in any window at most what Redis admits and one share of each process, whatever
// happens to Redis, to the number of replicas and to the costs.
func TestQuotaAndOneShareOfEachProcess(t *testing.T) {
	const most, window = 12, time.Minute
	for _, tc := range localLimits {
		t.Run(string(tc.limit.Algorithm), func(t *testing.T) {
			tc.limit.Name, tc.limit.Threshold, tc.limit.WindowMillis = "burst", most, window.Milliseconds()
			usedShares := false
			for seed := range seeds.InMemory(30) {
				w := &localWorld{redis: newTestStore(), plan: makePlan("a/x", localMode, limited(tc.limit)), r: rand.New(rand.NewPCG(seed, 5))}
				admitted := w.run(t, time.Duration(tc.windows)*window-time.Millisecond)
				bound := tc.most(most)
				for _, p := range w.processes {
					bound += tc.most((most + int64(p.fewest) - 1) / int64(p.fewest))
				}
				for i := range admitted {
					var inWindow int64
					for _, a := range admitted[i:] {
						if a.at.Sub(admitted[i].at) < window {
							inWindow += a.cost
						}
					}
					NewWithT(t).Expect(inWindow).To(BeNumerically("<=", bound), "seed %d", seed)
					usedShares = usedShares || inWindow > tc.most(most)
				}
			}
			NewWithT(t).Expect(usedShares).To(BeTrue(), "processes admitted shares")
		})
	}
}

// localWorld is a Redis that comes and goes, and processes that join and leave.
type localWorld struct {
	plan      *plan.Plan
	r         *rand.Rand
	redis     *testStore // all processes share its states
	processes []*process // also those that have left
	live      []*process
}

func (w *localWorld) join(now time.Time) {
	p := &process{fixture: newFixture(w.plan), fewest: len(w.live) + 1}
	p.store.Store, p.store.now, p.replicas = w.redis.Store, now, p.fewest
	w.processes, w.live = append(w.processes, p), append(w.live, p)
}

// run makes random requests and changes for that time, and returns the admitted costs.
func (w *localWorld) run(t *testing.T, length time.Duration) (admitted []admission) {
	t.Helper()
	now := time.UnixMicro(1_900_000_000_123_456)
	w.join(now)
	for end := now.Add(length); now.Before(end); now = now.Add(time.Duration(w.r.IntN(200)) * time.Millisecond) {
		p := w.live[w.r.IntN(len(w.live))]
		w.change(p, now)
		p.store.now, w.redis.now = now, now
		cost := 1 + w.r.Int64N(3)
		if d := p.decide(t, spending(cost, "a/x")); d.Allowed {
			admitted = append(admitted, admission{now, cost})
		}
	}
	return admitted
}

// change makes something happen: a process joins or leaves, loses or reaches Redis, or learns how
// many there are.
func (w *localWorld) change(p *process, now time.Time) {
	switch w.r.IntN(30) {
	case 0:
		if len(w.processes) < 6 {
			w.join(now)
		}
	case 1:
		if len(w.live) > 1 {
			w.live = w.live[1:]
		}
	case 2, 3:
		p.store.err = nil
	case 4, 5:
		p.store.err = errTimeout
	case 6:
		p.replicas = len(w.live)
		p.fewest = min(p.fewest, p.replicas)
	}
}
