// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// The scripts and the model give the same replies to the same random calls:
// chains of random policies, costs, peeks, edits, and time that mostly runs
// forward.
func TestScriptsAgreeWithModel(t *testing.T) {
	const runs, steps = 60, 250
	model := newModelBackend()
	redis, _ := newRedisBackend(t)
	start := redis.clock.Now()
	for run := range runs {
		seed := uint64(run)
		r := rand.New(rand.NewPCG(seed, 7))
		world := newWorld(r)
		model.clear(t)
		redis.clear(t)
		now := start
		var story []string
		for range steps {
			now = world.nextTime(now)
			call := world.nextCall()
			story = append(story, describe(now.Sub(start), call))
			model.clock.Set(now)
			redis.clock.Set(now)
			want, got := model.evaluate(t, call), redis.evaluate(t, call)
			if !gomega.NewWithT(t).Expect(got).To(gomega.Equal(want),
				"seed %d\n%s", seed, strings.Join(story[max(0, len(story)-12):], "\n")) {
				t.FailNow()
			}
		}
	}
}

// world makes random calls to a few policies.
type world struct {
	r        *rand.Rand
	policies []*Policy
	keys     []Key
}

func newWorld(r *rand.Rand) *world {
	w := &world{r: r, keys: []Key{"a", "b"}}
	for i := range 3 {
		w.policies = append(w.policies, w.randomPolicy(i))
	}
	return w
}

func (w *world) randomPolicy(i int) *Policy {
	limits := make([]Limit, 1+w.r.IntN(3))
	reached := w.r.IntN(4) == 0
	for j := range limits {
		limits[j] = w.randomLimit(j, reached)
	}
	return NewPolicy(fmt.Sprintf("test/p%d", i), w.r.IntN(3) == 0, w.r.IntN(5) == 0, limits)
}

func (w *world) randomLimit(j int, reached bool) Limit {
	windows := []time.Duration{time.Millisecond, 7 * time.Millisecond, 50 * time.Millisecond, time.Second}
	l := Limit{
		Name:      fmt.Sprintf("l%d", j),
		Algorithm: algorithms[w.r.IntN(len(algorithms))],
		Threshold: 2 + w.r.Int64N(12),
		Window:    windows[w.r.IntN(len(windows))],
	}
	l.Quota = l.Threshold
	if reached {
		l.Quota--
	}
	if w.r.IntN(3) == 0 {
		l.Block = windows[w.r.IntN(len(windows))]
	}
	return l
}

func (w *world) nextTime(now time.Time) time.Time {
	micros := []int64{0, 1, 300, 999, 1000, 1001, 7000, 20_000, 49_999, 400_000, 1_100_000, -700, -3000}
	return time.UnixMicro(now.UnixMicro() + micros[w.r.IntN(len(micros))])
}

func (w *world) nextCall() *Call {
	if w.r.IntN(40) == 0 { // somebody edits a policy
		i := w.r.IntN(len(w.policies))
		w.policies[i] = w.randomPolicy(i)
	}
	call := &Call{Refused: w.r.IntN(20) == 0}
	for _, i := range w.r.Perm(len(w.policies))[:1+w.r.IntN(len(w.policies))] {
		e := Entry{
			Policy: w.policies[i],
			Key:    w.keys[w.r.IntN(len(w.keys))],
			Cost:   1 + w.r.Int64N(3),
			Peek:   w.r.IntN(6) == 0,
		}
		for _, l := range e.Policy.limits {
			e.Peek = e.Peek || e.Cost > l.Quota // as the engine does
		}
		call.Entries = append(call.Entries, e)
	}
	return call
}

func describe(at time.Duration, call *Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "at %v refused=%v", at, call.Refused)
	for _, e := range call.Entries {
		fmt.Fprintf(&b, "\n  %s key %s cost %d peek %v attempts %v shadow %v %+v",
			e.Policy.id, e.Key, e.Cost, e.Peek, e.Policy.attempts, e.Policy.shadow, e.Policy.limits)
	}
	return b.String()
}
