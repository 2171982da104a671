// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Workload generates random calls to a few random policies.
type Workload struct {
	Rand *rand.Rand

	algorithms []store.Algorithm
	policies   [][]*store.Policy // with their variants
	features   Features
	keys       []store.Key
}

// Features are what the calls of a Workload may have beside checks.
type Features struct {
	// Substitutes is true if calls may need another key or limit, see store.Substitution.
	Substitutes bool
	// Holds is true if policies may take reservations or slices, and calls may reserve, commit, renew, charge and take
	// slices.
	Holds bool
}

// NewWorkload returns a workload with policies of the given algorithms.
func NewWorkload(r *rand.Rand, algorithms []store.Algorithm, f Features) *Workload {
	w := &Workload{Rand: r, algorithms: algorithms, keys: []store.Key{"a", "b"}, features: f}
	for i := range 3 {
		w.policies = append(w.policies, w.randomPolicy(i))
	}
	return w
}

// traits are the properties of a policy that all its limits must support.
type traits struct{ attempts, reached, shadow, holds, blockOnCommit bool }

// randomTraits returns traits, and the algorithms that support them.
func (w *Workload) randomTraits() (traits, []store.Algorithm) {
	m := traits{attempts: w.Rand.IntN(3) == 0, reached: w.Rand.IntN(4) == 0, shadow: w.Rand.IntN(5) == 0}
	var counting []store.Algorithm
	for _, a := range w.algorithms {
		if a.CanCountAttempts() {
			counting = append(counting, a)
		}
	}
	choice := w.algorithms
	if len(counting) == 0 {
		m.attempts, m.reached = false, false
	} else if m.attempts || m.reached {
		choice = counting
	}
	if w.features.Holds {
		choice, m.holds = fitForHolds(choice, !m.attempts && w.Rand.IntN(2) == 0)
		m.blockOnCommit = w.Rand.IntN(2) == 0
	}
	return m, choice
}

func (w *Workload) randomPolicy(i int) []*store.Policy {
	m, choice := w.randomTraits()
	limits := make([]store.Limit, 1+w.Rand.IntN(3))
	for j := range limits {
		limits[j] = w.randomLimit(choice[w.Rand.IntN(len(choice))], m.reached)
		limits[j].Name = fmt.Sprintf("l%d", j)
	}
	variants := [][]store.Limit{limits}
	if w.Rand.IntN(3) == 0 { // an override with other numbers
		variants = append(variants, w.override(limits, m.reached))
	}
	settings := store.Settings{
		ID: fmt.Sprintf("test/p%d", i), Attempts: m.attempts, Shadow: m.shadow, Requestable: w.features.Substitutes && w.Rand.IntN(2) == 0,
	}
	if m.holds {
		settings.BlockOnCommit = m.blockOnCommit
		settings.MaxOpen = 1 + w.Rand.Int64N(5)
		if w.Rand.IntN(3) == 0 {
			settings.MaxOpen = manyHolds
			addRoom(variants, manyHolds)
		}
	}
	if m.holds && fitForSlices(variants) && w.Rand.IntN(2) == 0 {
		settings.MaxOpen, settings.BlockOnCommit, settings.Slices = 0, false, store.Slices{MaxPercent: 1 + w.Rand.Int64N(50), MaxAge: time.Second}
		addRoom(variants, manyHolds)
	}
	policies := store.NewVariants(settings, variants...)
	if settings.Requestable {
		for range 1 + w.Rand.IntN(20) {
			selected := policies[w.Rand.IntN(len(variants))]
			place := w.Rand.IntN(len(limits))
			policies = append(policies, selected.NewRequested(w.requested(selected.Limits(), place), place))
		}
	}
	return policies
}

// manyHolds are more than a summary of holds has, and more than one call settles.
const manyHolds = 100

// fitForSlices reports whether the limits may have slices.
func fitForSlices(variants [][]store.Limit) bool {
	return !slices.ContainsFunc(variants, func(limits []store.Limit) bool {
		return slices.ContainsFunc(limits, func(l store.Limit) bool {
			return l.Algorithm == store.Concurrency || l.Block > 0 || l.Escalation != nil
		})
	})
}

// addRoom makes room for units in all limits.
func addRoom(variants [][]store.Limit, units int64) {
	for _, limits := range variants {
		for i := range limits {
			limits[i].Quota += units
			limits[i].Threshold += units
		}
	}
}

// fitForHolds returns the algorithms of a policy with or without holds. If none fits, it returns
// the algorithms of the other kind of policy.
func fitForHolds(choice []store.Algorithm, holds bool) ([]store.Algorithm, bool) {
	unfit := map[bool]store.Algorithm{true: store.Suppressed, false: store.Concurrency}
	of := func(holds bool) []store.Algorithm {
		return slices.DeleteFunc(slices.Clone(choice), func(a store.Algorithm) bool { return a == unfit[holds] })
	}
	if fit := of(holds); len(fit) > 0 {
		return fit, holds
	}
	return of(!holds), !holds
}

// requested returns the limits with one replaced as by a request, see plan.Limit.Requested.
func (w *Workload) requested(limits []store.Limit, place int) []store.Limit {
	limits = slices.Clone(limits)
	l := &limits[place]
	reached := l.Threshold - l.Quota
	l.Threshold = 2 + w.Rand.Int64N(40)
	switch {
	case l.Algorithm == store.Concurrency:
		l.Quota = l.Threshold
		return limits
	case l.Algorithm.Refills():
		l.Quota = l.Threshold
		l.StateSuffix = fmt.Sprint("+requested", l.Threshold)
	default:
		l.Quota = l.Threshold - max(0, reached)
		l.HardQuota = l.Quota * 3 / 2
	}
	if len(limits) > 1 || w.Rand.IntN(2) == 0 {
		return limits
	}
	window := workloadWindows[w.Rand.IntN(len(workloadWindows))]
	if l.Algorithm == store.SlidingLog && window != l.Window {
		l.StateSuffix = "+requested"
	}
	if l.Calendar == nil {
		l.Bucket = time.Duration(int64(l.Bucket) * int64(window) / int64(l.Window)).Truncate(time.Microsecond)
	}
	l.Window, l.Calendar = window, nil
	return limits
}

func (w *Workload) override(limits []store.Limit, reached bool) []store.Limit {
	other := make([]store.Limit, len(limits))
	for j, l := range limits {
		other[j] = w.randomLimit(l.Algorithm, reached)
		other[j].Name = l.Name
		if w.Rand.IntN(2) == 0 {
			other[j].Window, other[j].Bucket, other[j].Calendar = l.Window, l.Bucket, l.Calendar
		}
	}
	return other
}

var workloadWindows = []time.Duration{
	time.Millisecond, 7 * time.Millisecond, 50 * time.Millisecond, time.Second,
}

// workloadTTLs are times to live of holds.
var workloadTTLs = []time.Duration{time.Millisecond, 7 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 20 * time.Second}

// workloadCalendars have periods of one length, so that the script knows the periods of holds that have ended.
var workloadCalendars = []store.Calendar{Alternating{2, 2}, Alternating{50, 50}, Alternating{1000, 1000}}

func (w *Workload) randomLimit(a store.Algorithm, reached bool) store.Limit {
	l := store.Limit{
		Algorithm: a,
		Threshold: 2 + w.Rand.Int64N(12),
		Window:    workloadWindows[w.Rand.IntN(len(workloadWindows))],
	}
	l.Quota = l.Threshold
	switch a {
	case store.Concurrency:
		l.Window = 0
	case store.FixedWindow:
		if l.Threshold%3 == 0 {
			l.Calendar, l.Window = workloadCalendars[l.Threshold/3%3], 0
		}
	case store.SlidingLog:
	case store.TokenBucket, store.GCRA:
		l.Quota = 1 + w.Rand.Int64N(12)
	case store.SlidingWindow:
		l.Bucket = w.randomBucket(l.Window)
	case store.Suppressed:
		l.Bucket = w.randomBucket(l.Window)
		l.HardQuota = l.Quota * 3 / 2
	}
	if reached {
		l.Quota--
	}
	if w.Rand.IntN(3) == 0 {
		l.Block = workloadWindows[w.Rand.IntN(len(workloadWindows))]
		if l.Threshold%2 == 0 {
			l.Block, l.Escalation = 0, &store.Escalation{Lengths: workloadWindows[1:], Window: 2 * l.Block}
		}
	}
	return l
}

func (w *Workload) randomBucket(window time.Duration) time.Duration {
	return (window / []time.Duration{2, 3, 7, 60}[w.Rand.IntN(4)]).Truncate(time.Microsecond)
}

// NextTime returns a time near the given one, mostly later.
func (w *Workload) NextTime(now time.Time) time.Time {
	micros := []int64{0, 1, 300, 999, 1000, 1001, 7000, 20_000, 49_999, 400_000, 1_100_000, -700, -3000}
	return time.UnixMicro(now.UnixMicro() + micros[w.Rand.IntN(len(micros))])
}

func (w *Workload) randomEntry(i int) store.Entry {
	variants := w.policies[i]
	return store.Entry{Policy: variants[w.Rand.IntN(len(variants))], Key: w.keys[w.Rand.IntN(len(w.keys))]}
}

// NextCall returns a random call, sometimes after an edit of a policy.
func (w *Workload) NextCall() *store.Call {
	if w.Rand.IntN(15) == 0 { // edit a policy
		i := w.Rand.IntN(len(w.policies))
		w.policies[i] = w.randomPolicy(i)
	}
	next := w.nextCheck
	if w.features.Holds && w.Rand.IntN(4) == 0 {
		next = w.nextChange
	}
	call := &store.Call{Draw: w.Rand.Uint32()}
	for _, i := range w.Rand.Perm(len(w.policies))[:1+w.Rand.IntN(len(w.policies))] {
		e := w.randomEntry(i)
		e.ID = []string{"x", "y", "z", "{a}:b", store.StreamPrefix + "x"}[w.Rand.IntN(5)]
		e.TTL = workloadTTLs[w.Rand.IntN(len(workloadTTLs))]
		if e.Policy.MaxOpen() == manyHolds {
			e.ID, e.TTL = strconv.Itoa(w.Rand.IntN(manyHolds)), workloadTTLs[2+w.Rand.IntN(3)]
		}
		next(&e)
		call.Entries = append(call.Entries, e)
	}
	call.Denied = call.IsDeniable() && w.Rand.IntN(20) == 0
	return call
}

// nextCheck makes the entry a check or a reserve.
func (w *Workload) nextCheck(e *store.Entry) {
	e.OnlyKnown = w.features.Substitutes && w.Rand.IntN(6) == 0
	e.Cost, e.Peek = 1+w.Rand.Int64N(3), w.Rand.IntN(6) == 0
	if w.features.Holds && w.Rand.IntN(2) == 0 {
		e.Action = store.Reserve
	}
	if e.Peek && w.Rand.IntN(4) == 0 {
		e.Cost = 0
	}
	for _, l := range e.Policy.Limits() {
		e.Peek = e.Peek || e.Cost > l.Quota // as the engine does
	}
}

// nextChange makes the entry a commit, a renew, a charge or the take of a slice.
func (w *Workload) nextChange(e *store.Entry) {
	for e.Policy.Fallback() != nil {
		e.Policy = e.Policy.Fallback()
	}
	e.Action = store.Commit + store.Action(w.Rand.IntN(4))
	if e.Policy.TakesSlices() && w.Rand.IntN(2) == 0 {
		e.Action, e.Cost = store.TakeSlice, 1+w.Rand.Int64N(60)
		return
	}
	if e.Cost = w.Rand.Int64N(6); w.Rand.IntN(30) == 0 {
		e.Cost = 1_000_000_000 // more than a debt may be, and exact in a double
	}
	if e.Action == store.Charge && w.Rand.IntN(2) == 0 {
		e.ID = ""
	}
}

// Step is a call, or an action of an operator.
type Step struct {
	Do func(context.Context, Store) (any, error)
	// Describe returns the text of the step for a failed test.
	Describe func() string
}

// LastSteps returns the text of the last steps.
func LastSteps(steps []Step) string {
	var b strings.Builder
	for _, s := range steps[max(0, len(steps)-12):] {
		b.WriteString(s.Describe() + "\n")
	}
	return b.String()
}

// NextStep returns a random step, mostly a call.
func (w *Workload) NextStep() Step {
	e := w.randomEntry(w.Rand.IntN(len(w.policies)))
	switch w.Rand.IntN(60) {
	case 0:
		return stepOf(func(ctx context.Context, backend Store) (any, error) {
			return backend.Reset(ctx, e.Policy, e.Key)
		}, "reset %s key %s", e.Policy.ID(), e.Key)
	case 1:
		length := workloadWindows[w.Rand.IntN(len(workloadWindows))]
		return stepOf(func(ctx context.Context, backend Store) (any, error) {
			return "blocked", backend.Block(ctx, e.Policy, e.Key, length)
		}, "block %s key %s for %v", e.Policy.ID(), e.Key, length)
	case 2:
		return stepOf(func(ctx context.Context, backend Store) (any, error) {
			return backend.Unblock(ctx, e.Policy, e.Key)
		}, "unblock %s key %s", e.Policy.ID(), e.Key)
	}
	call := w.NextCall()
	return Step{
		Do:       func(ctx context.Context, backend Store) (any, error) { return backend.Evaluate(ctx, call) },
		Describe: func() string { return Describe(call) },
	}
}

func stepOf(do func(context.Context, Store) (any, error), format string, args ...any) Step {
	return Step{Do: do, Describe: func() string { return fmt.Sprintf(format, args...) }}
}

// PossibleCall returns a random call that is admitted at some time.
func (w *Workload) PossibleCall() *store.Call {
	for {
		call := w.NextCall()
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

// Describe returns the text of the call for a failed test.
func Describe(call *store.Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "denied=%v draw=%d", call.Denied, call.Draw)
	for _, e := range call.Entries {
		fmt.Fprintf(&b, "\n  %s key %s cost %d peek %v only known %v action %v id %s ttl %v most %d sliced %d attempts %v shadow %v on commit %v requested %v %+v",
			e.Policy.ID(), e.Key, e.Cost, e.Peek, e.OnlyKnown, e.Action, e.ID, e.TTL, e.Policy.MaxOpen(), e.Policy.MostSliced(),
			e.Policy.CountsAttempts(), e.Policy.IsShadow(), e.Policy.BlocksOnCommit(), e.Policy.Fallback() != nil, e.Policy.Limits())
	}
	return b.String()
}
