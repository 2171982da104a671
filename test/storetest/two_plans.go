// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/testenv/seeds"
)

// twoPlansAtOnce checks one key by two plans of one policy in turn, as replicas do during a rollout, an edit or an exception.
// The judge does not know how the stores count: it sees only which units were admitted, and when.
func twoPlansAtOnce(t *testing.T, subject *Subject) {
	t.Helper()
	all := seeds.InMemory(60)
	if subject.IsRemote {
		all = seeds.OnServer(8)
	}
	for _, algorithm := range twoPlanAlgorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			lowered := 0 // seeds in which a smaller plan met what a larger one had admitted
			test := func(seed uint64) {
				p := newPlanPair(rand.New(rand.NewPCG(seed, 5)), algorithm)
				t.Run(fmt.Sprintf("seed %d %s", seed, p), func(t *testing.T) {
					subject.Clear(t)
					p.run(t, subject)
					p.judge(NewWithT(t))
					p.judgeUsed(t, subject)
				})
				if p.hasMetMore {
					lowered++
				}
			}
			for seed := range all {
				test(seed)
			}
			test(706012) // it has found a defect of SlidingLog
			NewWithT(t).Expect(lowered).To(BeNumerically(">", 0))
		})
	}
}

// twoPlanAlgorithms are all algorithms that count.
var twoPlanAlgorithms = []store.Algorithm{
	store.FixedWindow, store.SlidingLog, store.SlidingWindow, store.TokenBucket, store.GCRA, store.Suppressed,
}

// planPair is two plans of one policy with one limit, and what they have admitted.
type planPair struct {
	*rand.Rand

	limits     [2]store.Limit
	plans      [2]*store.Policy
	takes      [2]store.Action // the holds of each plan: Check means none
	open       []openHold
	hits       []Hit
	isApart    bool     // each plan has a state of its own, as with an override that has another rate
	own        [2][]Hit // what each of such plans has admitted
	since      int64    // hits before it are not judged
	hasMetMore bool     // a plan has reported more used units than its quota
}

type openHold struct {
	by    *store.Policy
	id    string
	units int64
}

const planWindow = time.Second

// newPlanPair returns plans that differ in the burst or quota, and perhaps in the rate and in whether they take reservations or
// slices; of a SlidingLog perhaps in the window.
func newPlanPair(r *rand.Rand, algorithm store.Algorithm) *planPair {
	p := &planPair{Rand: r}
	p.chooseHolds()
	l := p.limitOf(algorithm)
	other := p.otherLimit(l)
	if !mayHold(l, other) {
		p.takes = [2]store.Action{}
	}
	if p.takes[0] != p.takes[1] && r.IntN(2) == 0 {
		other = l // an edit that only adds or removes reservations or slices
	}
	if p.isApart = p.takes == [2]store.Action{} && r.IntN(8) == 0; p.isApart {
		other.StateSuffix, other.Window = "own", planWindow
	}
	p.limits = [2]store.Limit{l, other}
	for i := range p.plans {
		p.plans[i] = store.NewVariants(settingsFor(p.takes[i]), p.limits[i:i+1])[0]
	}
	if r.IntN(3) == 0 && p.takes == [2]store.Action{} { // an exception on one side
		p.plans[1] = p.plans[0].NewExcepted(p.limits[1:2])
	}
	return p
}

// limitOf returns a limit, with room for slices if a plan takes some.
func (p *planPair) limitOf(algorithm store.Algorithm) store.Limit {
	l := store.Limit{Name: "l", Algorithm: algorithm, Quota: 5 + p.Int64N(20), Window: planWindow}
	if slices.Contains(p.takes[:], store.TakeSlice) {
		l.Quota += 4 * store.SmallestSlice
	}
	l.Threshold, l.HardQuota = l.Quota, l.Quota*3/2
	if algorithm == store.SlidingWindow || algorithm == store.Suppressed {
		l.Bucket = planWindow / 60
	}
	return l
}

// mayHold reports whether plans with these limits may have reservations and slices. With GCRA a commit may leave a debt, which
// another rate works off from now on.
func mayHold(a, b store.Limit) bool {
	return a.Algorithm != store.Suppressed && (a.Algorithm != store.GCRA || a.Threshold == b.Threshold)
}

// otherLimit returns the limit with another quota or burst, and perhaps another rate or window.
func (p *planPair) otherLimit(l store.Limit) store.Limit {
	other := l
	other.Quota = 1 + p.Int64N(100)
	other.Threshold, other.HardQuota = other.Quota, other.Quota*3/2
	if l.Algorithm.Refills() {
		other.Threshold = l.Threshold
		if p.IntN(2) == 0 {
			other.Threshold = 1 + p.Int64N(40)
		}
	}
	if l.Algorithm == store.SlidingLog && p.IntN(2) == 0 {
		other.Window = planWindow / 2
	}
	return other
}

// chooseHolds chooses which of the plans take reservations or slices: often none.
func (p *planPair) chooseHolds() {
	if p.IntN(2) == 0 {
		holds := []store.Action{store.Check, store.Reserve, store.TakeSlice}
		p.takes = [2]store.Action{holds[p.IntN(3)], holds[p.IntN(3)]}
	}
}

// settingsFor returns the settings of a plan that takes such holds.
func settingsFor(takes store.Action) store.Settings {
	settings := store.Settings{ID: "test/plans"}
	if takes == store.Reserve {
		settings.MaxOpen = 8
	}
	if takes == store.TakeSlice {
		settings.Slices = store.Slices{MaxPercent: 50, MaxAge: time.Minute}
	}
	return settings
}

func (p *planPair) String() string {
	a, b := p.limits[0], p.limits[1]
	return fmt.Sprintf("%d and %d, rates %d and %d, actions %v", a.Quota, b.Quota, a.Threshold, b.Threshold, p.takes)
}

// run makes calls by both plans in phases, in which one plan is often asked alone, and then by the one with the longer window.
func (p *planPair) run(t *testing.T, subject *Subject) {
	t.Helper()
	for range 12 {
		alone, pace := p.IntN(3), []int64{0, 2_000, 60_000}[p.IntN(3)]
		for range 1 + p.IntN(60) {
			i := p.IntN(2)
			if alone < 2 {
				i = alone
			}
			p.call(t, subject, i)
			subject.Clock.Set(subject.Clock.Now().Add(time.Duration(p.Int64N(1+pace)) * time.Microsecond))
		}
		for alone != 0 && len(p.open) > 0 {
			p.commit(t, subject, store.Entry{Policy: p.plans[1], Key: "a"})
		}
	}
	if p.limits[0].Window != p.limits[1].Window {
		for len(p.open) > 0 {
			p.commit(t, subject, store.Entry{Policy: p.plans[0], Key: "a"})
		}
		p.since = subject.Clock.Now().UnixMicro() + planWindow.Microseconds()
		for range 200 {
			p.call(t, subject, 0)
			subject.Clock.Set(subject.Clock.Now().Add(time.Duration(p.Int64N(30_000)) * time.Microsecond))
		}
	}
}

// call checks, reserves, commits or peeks by one plan.
func (p *planPair) call(t *testing.T, subject *Subject, i int) {
	t.Helper()
	most := p.limits[i].Quota
	e := store.Entry{Policy: p.plans[i], Key: "a", Cost: 1 + p.Int64N(4)}
	switch choice := p.IntN(8); {
	case choice == 0:
		e.Peek = true
	case choice < 3 && p.takes[i] != store.Check && len(p.open) < 8:
		e.Action, e.ID, e.TTL = p.takes[i], strconv.Itoa(p.Int()), time.Minute
		if e.Action == store.TakeSlice {
			e.Cost = most
		}
	case choice == 3 && len(p.open) > 0:
		p.commit(t, subject, e)
		return
	}
	call := &store.Call{Entries: []store.Entry{e}}
	if p.limits[i].Algorithm == store.Suppressed {
		call.Draw = p.Uint32()
	}
	reply := subject.MustEvaluate(t, call).Entries[0]
	if most < p.limits[1-i].Quota && reply.Limits[0].Used >= most {
		p.hasMetMore = true
	}
	p.record(subject, &e, &reply)
}

// record records what the reply admits.
func (p *planPair) record(subject *Subject, e *store.Entry, reply *store.EntryReply) {
	switch {
	case reply.Verdict != store.Admitted || e.Peek:
	case e.Action == store.Reserve:
		p.open = append(p.open, openHold{e.Policy, e.ID, e.Cost})
	case e.Action == store.TakeSlice:
		if reply.Hold == store.HoldTaken {
			p.open = append(p.open, openHold{e.Policy, e.ID, reply.Estimate})
		}
	default:
		p.hits = append(p.hits, Hit{At: subject.Clock.Now().UnixMicro(), Cost: e.Cost})
		i := slices.Index(p.plans[:], e.Policy)
		p.own[i] = append(p.own[i], p.hits[len(p.hits)-1])
	}
}

// commit spends at most the units of an open reservation or slice, by the plan that took it or by the one of the entry, which
// may take none.
func (p *planPair) commit(t *testing.T, subject *Subject, e store.Entry) {
	t.Helper()
	of := p.open[0]
	p.open = p.open[1:]
	if p.IntN(2) == 0 {
		e.Policy = of.by
	}
	e.Action, e.ID, e.Cost = store.Commit, of.id, p.Int64N(of.units+1)
	if subject.MustEvaluate(t, &store.Call{Entries: []store.Entry{e}}).Entries[0].Hold == store.HoldFound {
		p.hits = append(p.hits, Hit{At: subject.Clock.Now().UnixMicro(), Cost: e.Cost})
	}
}

// judge expects that no more was admitted than the larger of both plans admits at each point in time, or each of plans that
// have states of their own.
func (p *planPair) judge(g *WithT) {
	if !p.isApart {
		p.judgeTogether(g)
		return
	}
	for i, l := range p.limits {
		alone := planPair{limits: [2]store.Limit{l, l}, hits: p.own[i]}
		alone.judgeTogether(g)
	}
}

func (p *planPair) judgeTogether(g *WithT) {
	a, b := p.limits[0], p.limits[1]
	most, rate := max(a.Quota, b.Quota), max(a.Threshold, b.Threshold)
	judged := p.hits
	for len(judged) > 0 && judged[0].At < p.since {
		judged = judged[1:]
	}
	switch a.Algorithm {
	case store.FixedWindow:
		g.Expect(UnitsOfWindows(judged, planWindow)).To(HaveEach(BeNumerically("<=", most)))
	case store.TokenBucket:
		ExpectRefill(g, judged, most, rate, planWindow)
	case store.GCRA:
		if a.Threshold != b.Threshold {
			most = a.Quota + b.Quota
		}
		ExpectRefill(g, judged, most, rate, planWindow)
	case store.Suppressed:
		ExpectEveryInterval(g, judged, max(a.HardQuota, b.HardQuota), planWindow)
	default:
		if a.Window != b.Window {
			most = a.Quota
		}
		ExpectEveryInterval(g, judged, most, planWindow)
	}
}

// judgeUsed expects that each plan reports at least what it would count of the same admissions alone.
func (p *planPair) judgeUsed(t *testing.T, subject *Subject) {
	t.Helper()
	for i, policy := range p.plans {
		l, hits := p.limits[i], p.hits
		if p.isApart {
			hits = p.own[i]
		}
		if l.Algorithm == store.GCRA && p.limits[0].Threshold != p.limits[1].Threshold {
			continue // an arrival time is time, of which each rate makes other units
		}
		call := &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 1, Peek: true}}}
		used := subject.MustEvaluate(t, call).Entries[0].Limits[0].Used
		NewWithT(t).Expect(used).To(BeNumerically(">=", p.counted(l, hits, subject.Clock.Now().UnixMicro())), "plan %d", i)
	}
}

// counted returns the units of the hits that the limit counts at the time, at most its quota.
func (p *planPair) counted(l store.Limit, hits []Hit, now int64) int64 {
	length, rate := l.Window.Microseconds(), max(p.limits[0].Threshold, p.limits[1].Threshold)
	var units, end, missing, last int64
	for _, h := range append(slices.Clip(hits), Hit{At: now}) {
		switch {
		case h.At < p.since:
		case l.Algorithm == store.FixedWindow:
			if h.At >= end {
				units = 0
			}
			if h.At >= end && h.Cost > 0 {
				end = (h.At/1000 + l.Window.Milliseconds()) * 1000
			}
			units += h.Cost
		case l.Algorithm.Refills():
			missing = min(l.Quota*length, max(0, missing-(h.At-last)*rate)+h.Cost*length)
			last, units = h.At, missing/length
		case h.At > now-length:
			units += h.Cost
		}
	}
	return min(units, l.Quota)
}
