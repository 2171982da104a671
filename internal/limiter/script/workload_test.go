// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// workload generates random calls to a few random policies.
type workload struct {
	r        *rand.Rand
	choice   []Algorithm
	policies [][]*Policy // with their variants
	// substitutes is true if calls may need another key or limit, see substitute.go.
	substitutes bool
	keys        []Key
}

// newWorkload returns a workload with policies of the given algorithms.
func newWorkload(r *rand.Rand, choice []Algorithm, substitutes bool) *workload {
	w := &workload{r: r, choice: choice, keys: []Key{"a", "b"}, substitutes: substitutes}
	for i := range 3 {
		w.policies = append(w.policies, w.randomPolicy(i))
	}
	return w
}

// traits are the properties of a policy that all its limits must support.
type traits struct{ attempts, reached, shadow bool }

func (w *workload) randomPolicy(i int) []*Policy {
	m := traits{attempts: w.r.IntN(3) == 0, reached: w.r.IntN(4) == 0, shadow: w.r.IntN(5) == 0}
	var counting []Algorithm
	for _, a := range w.choice {
		if a.kind().attempts {
			counting = append(counting, a)
		}
	}
	choice := w.choice
	if len(counting) == 0 {
		m.attempts, m.reached = false, false
	} else if m.attempts || m.reached {
		choice = counting
	}
	limits := make([]Limit, 1+w.r.IntN(3))
	for j := range limits {
		limits[j] = w.randomLimit(choice[w.r.IntN(len(choice))], m.reached)
		limits[j].Name = fmt.Sprintf("l%d", j)
	}
	variants := [][]Limit{limits}
	if w.r.IntN(3) == 0 { // an override with other numbers
		variants = append(variants, w.override(limits, m.reached))
	}
	settings := Settings{
		ID: fmt.Sprintf("test/p%d", i), Attempts: m.attempts, Shadow: m.shadow, Requestable: w.substitutes && w.r.IntN(2) == 0,
	}
	policies := NewVariants(settings, variants...)
	if settings.Requestable {
		for range 1 + w.r.IntN(20) {
			selected := policies[w.r.IntN(len(variants))]
			place := w.r.IntN(len(limits))
			policies = append(policies, selected.NewRequested(w.requested(selected.limits, place), place))
		}
	}
	return policies
}

// requested returns the limits with one replaced as by a request, see plan.Limit.Requested.
func (w *workload) requested(limits []Limit, place int) []Limit {
	limits = slices.Clone(limits)
	l := &limits[place]
	reached := l.Threshold - l.Quota
	l.Threshold = 2 + w.r.Int64N(40)
	switch {
	case l.Algorithm.refills():
		l.Quota = l.Threshold
		l.StateSuffix = fmt.Sprint("+requested", l.Threshold)
	default:
		l.Quota = l.Threshold - max(0, reached)
		l.HardQuota = l.Quota * 3 / 2
	}
	if len(limits) > 1 || w.r.IntN(2) == 0 {
		return limits
	}
	window := workloadWindows[w.r.IntN(len(workloadWindows))]
	if l.Algorithm == SlidingLog && window != l.Window {
		l.StateSuffix = "+requested"
	}
	l.Bucket = time.Duration(int64(l.Bucket) * int64(window) / int64(l.Window)).Truncate(time.Microsecond)
	l.Window = window
	return limits
}

func (w *workload) override(limits []Limit, reached bool) []Limit {
	other := make([]Limit, len(limits))
	for j, l := range limits {
		other[j] = w.randomLimit(l.Algorithm, reached)
		other[j].Name = l.Name
		if w.r.IntN(2) == 0 {
			other[j].Window, other[j].Bucket = l.Window, l.Bucket
		}
	}
	return other
}

var workloadWindows = []time.Duration{
	time.Millisecond, 7 * time.Millisecond, 50 * time.Millisecond, time.Second,
}

func (w *workload) randomLimit(a Algorithm, reached bool) Limit {
	l := Limit{
		Algorithm: a,
		Threshold: 2 + w.r.Int64N(12),
		Window:    workloadWindows[w.r.IntN(len(workloadWindows))],
	}
	l.Quota = l.Threshold
	switch a {
	case FixedWindow, SlidingLog:
	case TokenBucket, GCRA:
		l.Quota = 1 + w.r.Int64N(12)
	case SlidingWindow:
		l.Bucket = w.randomBucket(l.Window)
	case Suppressed:
		l.Bucket = w.randomBucket(l.Window)
		l.HardQuota = l.Quota * 3 / 2
	}
	if reached {
		l.Quota--
	}
	if w.r.IntN(3) == 0 {
		l.Block = workloadWindows[w.r.IntN(len(workloadWindows))]
	}
	return l
}

func (w *workload) randomBucket(window time.Duration) time.Duration {
	return (window / []time.Duration{2, 3, 7, 60}[w.r.IntN(4)]).Truncate(time.Microsecond)
}

func (w *workload) nextTime(now time.Time) time.Time {
	micros := []int64{0, 1, 300, 999, 1000, 1001, 7000, 20_000, 49_999, 400_000, 1_100_000, -700, -3000}
	return time.UnixMicro(now.UnixMicro() + micros[w.r.IntN(len(micros))])
}

func (w *workload) randomEntry(i int) Entry {
	variants := w.policies[i]
	return Entry{Policy: variants[w.r.IntN(len(variants))], Key: w.keys[w.r.IntN(len(w.keys))]}
}

func (w *workload) nextCall() *Call {
	if w.r.IntN(15) == 0 { // edit a policy
		i := w.r.IntN(len(w.policies))
		w.policies[i] = w.randomPolicy(i)
	}
	call := &Call{Denied: w.r.IntN(20) == 0, Draw: w.r.Uint32()}
	for _, i := range w.r.Perm(len(w.policies))[:1+w.r.IntN(len(w.policies))] {
		e := w.randomEntry(i)
		e.OnlyKnown = w.substitutes && w.r.IntN(6) == 0
		e.Cost, e.Peek = 1+w.r.Int64N(3), w.r.IntN(6) == 0
		if e.Peek && w.r.IntN(4) == 0 {
			e.Cost = 0
		}
		for _, l := range e.Policy.limits {
			e.Peek = e.Peek || e.Cost > l.Quota // as the engine does
		}
		call.Entries = append(call.Entries, e)
	}
	return call
}

// possibleCall returns a random call that is admitted at some time.
func (w *workload) possibleCall() *Call {
	for {
		call := w.nextCall()
		call.Denied = false
		possible := true
		for _, e := range call.Entries {
			for _, l := range e.Policy.limits {
				possible = possible && e.Cost <= l.Quota
			}
		}
		if possible {
			return call
		}
	}
}

func describe(call *Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "denied=%v draw=%d", call.Denied, call.Draw)
	for _, e := range call.Entries {
		fmt.Fprintf(&b, "\n  %s key %s cost %d peek %v only known %v attempts %v shadow %v %+v",
			e.Policy.id, e.Key, e.Cost, e.Peek, e.OnlyKnown, e.Policy.attempts, e.Policy.shadow, e.Policy.limits)
	}
	return b.String()
}
