// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// workload generates random calls to a few random policies.
type workload struct {
	r        *rand.Rand
	choice   []quota.Algorithm
	policies [][]*quota.Policy // with their variants
	features
	keys []quota.Key
}

// features are what the calls of a workload may have beside checks.
type features struct {
	// substitutes is true if calls may need another key or limit, see substitute.go.
	substitutes bool
	// holds is true if policies may take reservations, and calls may reserve, commit, renew and
	// charge.
	holds bool
}

// newWorkload returns a workload with policies of the given algorithms.
func newWorkload(r *rand.Rand, choice []quota.Algorithm, f features) *workload {
	w := &workload{r: r, choice: choice, keys: []quota.Key{"a", "b"}, features: f}
	for i := range 3 {
		w.policies = append(w.policies, w.randomPolicy(i))
	}
	return w
}

// traits are the properties of a policy that all its limits must support.
type traits struct{ attempts, reached, shadow, holds bool }

// randomTraits returns traits, and the algorithms that support them.
func (w *workload) randomTraits() (traits, []quota.Algorithm) {
	m := traits{attempts: w.r.IntN(3) == 0, reached: w.r.IntN(4) == 0, shadow: w.r.IntN(5) == 0}
	var counting []quota.Algorithm
	for _, a := range w.choice {
		if a.CanCountAttempts() {
			counting = append(counting, a)
		}
	}
	choice := w.choice
	if len(counting) == 0 {
		m.attempts, m.reached = false, false
	} else if m.attempts || m.reached {
		choice = counting
	}
	if w.holds {
		choice, m.holds = fitForHolds(choice, !m.attempts && w.r.IntN(2) == 0)
	}
	return m, choice
}

func (w *workload) randomPolicy(i int) []*quota.Policy {
	m, choice := w.randomTraits()
	limits := make([]quota.Limit, 1+w.r.IntN(3))
	for j := range limits {
		limits[j] = w.randomLimit(choice[w.r.IntN(len(choice))], m.reached)
		limits[j].Name = fmt.Sprintf("l%d", j)
	}
	variants := [][]quota.Limit{limits}
	if w.r.IntN(3) == 0 { // an override with other numbers
		variants = append(variants, w.override(limits, m.reached))
	}
	settings := quota.Settings{
		ID: fmt.Sprintf("test/p%d", i), Attempts: m.attempts, Shadow: m.shadow, Requestable: w.substitutes && w.r.IntN(2) == 0,
	}
	if m.holds {
		settings.MaxOpen = 1 + w.r.Int64N(5)
		if w.r.IntN(3) == 0 {
			settings.MaxOpen = manyHolds
			addRoom(variants, manyHolds)
		}
	}
	policies := quota.NewVariants(settings, variants...)
	if settings.Requestable {
		for range 1 + w.r.IntN(20) {
			selected := policies[w.r.IntN(len(variants))]
			place := w.r.IntN(len(limits))
			policies = append(policies, selected.NewRequested(w.requested(selected.Limits(), place), place))
		}
	}
	return policies
}

// manyHolds are more than a summary of holds has, and more than one call settles.
const manyHolds = 100

// addRoom makes room for units in all limits.
func addRoom(variants [][]quota.Limit, units int64) {
	for _, limits := range variants {
		for i := range limits {
			limits[i].Quota += units
			limits[i].Threshold += units
		}
	}
}

// fitForHolds returns the algorithms of a policy with or without holds. If none fits, it returns
// those of the other kind of policy.
func fitForHolds(choice []quota.Algorithm, holds bool) ([]quota.Algorithm, bool) {
	unfit := map[bool]quota.Algorithm{true: quota.Suppressed, false: quota.Concurrency}
	of := func(holds bool) []quota.Algorithm {
		return slices.DeleteFunc(slices.Clone(choice), func(a quota.Algorithm) bool { return a == unfit[holds] })
	}
	if fit := of(holds); len(fit) > 0 {
		return fit, holds
	}
	return of(!holds), !holds
}

// requested returns the limits with one replaced as by a request, see plan.Limit.Requested.
func (w *workload) requested(limits []quota.Limit, place int) []quota.Limit {
	limits = slices.Clone(limits)
	l := &limits[place]
	reached := l.Threshold - l.Quota
	l.Threshold = 2 + w.r.Int64N(40)
	switch {
	case l.Algorithm == quota.Concurrency:
		l.Quota = l.Threshold
		return limits
	case l.Algorithm.Refills():
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
	if l.Algorithm == quota.SlidingLog && window != l.Window {
		l.StateSuffix = "+requested"
	}
	if l.Calendar == nil {
		l.Bucket = time.Duration(int64(l.Bucket) * int64(window) / int64(l.Window)).Truncate(time.Microsecond)
	}
	l.Window, l.Calendar = window, nil
	return limits
}

func (w *workload) override(limits []quota.Limit, reached bool) []quota.Limit {
	other := make([]quota.Limit, len(limits))
	for j, l := range limits {
		other[j] = w.randomLimit(l.Algorithm, reached)
		other[j].Name = l.Name
		if w.r.IntN(2) == 0 {
			other[j].Window, other[j].Bucket, other[j].Calendar = l.Window, l.Bucket, l.Calendar
		}
	}
	return other
}

var workloadWindows = []time.Duration{
	time.Millisecond, 7 * time.Millisecond, 50 * time.Millisecond, time.Second,
}

// workloadTTLs are those of holds.
var workloadTTLs = []time.Duration{time.Millisecond, 7 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 20 * time.Second}

// workloadCalendars have periods of one length, so that the script knows those of holds in the past.
var workloadCalendars = []quota.Calendar{alternating{2, 2}, alternating{50, 50}, alternating{1000, 1000}}

func (w *workload) randomLimit(a quota.Algorithm, reached bool) quota.Limit {
	l := quota.Limit{
		Algorithm: a,
		Threshold: 2 + w.r.Int64N(12),
		Window:    workloadWindows[w.r.IntN(len(workloadWindows))],
	}
	l.Quota = l.Threshold
	switch a {
	case quota.Concurrency:
		l.Window = 0
	case quota.FixedWindow:
		if l.Threshold%3 == 0 {
			l.Calendar, l.Window = workloadCalendars[l.Threshold/3%3], 0
		}
	case quota.SlidingLog:
	case quota.TokenBucket, quota.GCRA:
		l.Quota = 1 + w.r.Int64N(12)
	case quota.SlidingWindow:
		l.Bucket = w.randomBucket(l.Window)
	case quota.Suppressed:
		l.Bucket = w.randomBucket(l.Window)
		l.HardQuota = l.Quota * 3 / 2
	}
	if reached {
		l.Quota--
	}
	if w.r.IntN(3) == 0 {
		l.Block = workloadWindows[w.r.IntN(len(workloadWindows))]
		if l.Threshold%2 == 0 {
			l.Block, l.Escalation = 0, &quota.Escalation{Lengths: workloadWindows[1:], Window: 2 * l.Block}
		}
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

func (w *workload) randomEntry(i int) quota.Entry {
	variants := w.policies[i]
	return quota.Entry{Policy: variants[w.r.IntN(len(variants))], Key: w.keys[w.r.IntN(len(w.keys))]}
}

func (w *workload) nextCall() *quota.Call {
	if w.r.IntN(15) == 0 { // edit a policy
		i := w.r.IntN(len(w.policies))
		w.policies[i] = w.randomPolicy(i)
	}
	next := w.nextCheck
	if w.holds && w.r.IntN(4) == 0 {
		next = w.nextChange
	}
	call := &quota.Call{Draw: w.r.Uint32()}
	for _, i := range w.r.Perm(len(w.policies))[:1+w.r.IntN(len(w.policies))] {
		e := w.randomEntry(i)
		e.ID = []string{"x", "y", "z", "{a}:b"}[w.r.IntN(4)]
		e.TTL = workloadTTLs[w.r.IntN(len(workloadTTLs))]
		if e.Policy.MaxOpen() == manyHolds {
			e.ID, e.TTL = strconv.Itoa(w.r.IntN(manyHolds)), workloadTTLs[2+w.r.IntN(3)]
		}
		next(&e)
		call.Entries = append(call.Entries, e)
	}
	call.Denied = call.IsDeniable() && w.r.IntN(20) == 0
	return call
}

// nextCheck makes the entry a check or a reserve.
func (w *workload) nextCheck(e *quota.Entry) {
	e.OnlyKnown = w.substitutes && w.r.IntN(6) == 0
	e.Cost, e.Peek = 1+w.r.Int64N(3), w.r.IntN(6) == 0
	if w.holds && w.r.IntN(2) == 0 {
		e.Action = quota.Reserve
	}
	if e.Peek && w.r.IntN(4) == 0 {
		e.Cost = 0
	}
	for _, l := range e.Policy.Limits() {
		e.Peek = e.Peek || e.Cost > l.Quota // as the engine does
	}
}

// nextChange makes the entry a commit, a renew or a charge.
func (w *workload) nextChange(e *quota.Entry) {
	for e.Policy.Fallback() != nil {
		e.Policy = e.Policy.Fallback()
	}
	e.Action = quota.Commit + quota.Action(w.r.IntN(4))
	if e.Cost = w.r.Int64N(6); w.r.IntN(30) == 0 {
		e.Cost = 1_000_000_000 // more than a debt may be, and exact in a double
	}
	if e.Action == quota.Charge && w.r.IntN(2) == 0 {
		e.ID = ""
	}
}

// possibleCall returns a random call that is admitted at some time.
func (w *workload) possibleCall() *quota.Call {
	for {
		call := w.nextCall()
		call.Denied = false
		possible := true
		for _, e := range call.Entries {
			for _, l := range e.Policy.Limits() {
				possible = possible && e.Cost <= l.Quota
			}
		}
		if possible {
			return call
		}
	}
}

func describe(call *quota.Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "denied=%v draw=%d", call.Denied, call.Draw)
	for _, e := range call.Entries {
		fmt.Fprintf(&b, "\n  %s key %s cost %d peek %v only known %v action %v id %s ttl %v most %d attempts %v shadow %v requested %v %+v",
			e.Policy.ID(), e.Key, e.Cost, e.Peek, e.OnlyKnown, e.Action, e.ID, e.TTL, e.Policy.MaxOpen(),
			e.Policy.CountsAttempts(), e.Policy.IsShadow(), e.Policy.Fallback() != nil, e.Policy.Limits())
	}
	return b.String()
}
