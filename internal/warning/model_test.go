// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/reference"
)

// In the reference model of the scripts, a limit that a warning calls ineffective
// never denies a check that the tighter limit admits: random checks at random times,
// under random overrides.
func TestIneffectiveLimitsNeverDeny(t *testing.T) {
	g := NewWithT(t)
	random := rand.New(rand.NewPCG(1, 2))
	found := map[[2]plan.Algorithm]int{}
	for range 40_000 {
		p := randomPlan(random)
		if p.Validate() != nil {
			continue
		}
		variants := variantsOf(p)
		if isTighter(p, variants, 0, 1) {
			found[[2]plan.Algorithm{p.Limits[0].Algorithm, p.Limits[1].Algorithm}]++
			expectIdle(t, random, p, variants)
		}
	}
	t.Log(found)
	g.Expect(len(found)).To(BeNumerically(">=", 14), "%v", found)
}

// expectIdle sends random checks to the model and fails if only the second limit
// denies one.
func expectIdle(t *testing.T, random *rand.Rand, p *plan.Plan, variants [][]plan.Limit) {
	t.Helper()
	policies := scripts(p, variants)
	model, now := &reference.Model{}, time.UnixMicro(1_700_000_000_000_000)
	for range 150 {
		now = now.Add(time.Duration(random.IntN(1+1<<random.IntN(15))) * time.Microsecond)
		entry := store.Entry{Policy: policies[random.IntN(len(policies))], Key: "k", Cost: 1 + random.Int64N(3)}
		reply := model.Evaluate(&store.Call{Entries: []store.Entry{entry}, Denied: random.IntN(10) == 0}, now).Entries[0]
		if reply.Verdict != store.Blocked && reply.Limits[0].Admits && !reply.Limits[1].Admits {
			t.Fatalf("denied by the second limit only, with %+v: %+v, %+v", reply, p.Limits, p.Overrides)
		}
	}
}

// scripts compiles the policy for the model, as the engine does for Redis.
func scripts(p *plan.Plan, variants [][]plan.Limit) []*store.Policy {
	limits := make([][]store.Limit, len(variants))
	for i, v := range variants {
		for _, l := range v {
			limits[i] = append(limits[i], store.Limit{
				Name: l.Name, Algorithm: store.AlgorithmNamed(string(l.Algorithm)), Quota: p.Quota(l), Threshold: l.Threshold,
				HardQuota: l.HardQuota(), Window: l.Window(), Bucket: l.Bucket(), Block: l.Block(), StateSuffix: l.StateSuffix,
			})
		}
	}
	return store.NewVariants(store.Settings{ID: p.ID(), Attempts: p.Counting == plan.CountAttempts}, limits...)
}

// An edit gets a warning exactly if the model holds no used units after it. Counters
// that are reset only for the callers of an override get a warning that names it.
func TestWarningsMatchTheResetCounters(t *testing.T) {
	g := NewWithT(t)
	random := rand.New(rand.NewPCG(3, 4))
	var kept, dropped int
	for range 20_000 {
		was, is := edited(random)
		if was.Validate() != nil || is.Validate() != nil {
			continue
		}
		before, after := variantsOf(was), variantsOf(is)
		for v := range before {
			model, now := &reference.Model{}, time.UnixMicro(1_700_000_000_000_000)
			spend := store.Entry{Policy: scripts(was, before)[v], Key: "k", Cost: 1}
			model.Evaluate(&store.Call{Entries: []store.Entry{spend}}, now)
			peek := store.Entry{Policy: scripts(is, after)[v], Key: "k", Cost: 1, Peek: true}
			reply := model.Evaluate(&store.Call{Entries: []store.Entry{peek}}, now).Entries[0]
			for i, l := range reply.Limits {
				if l.Used > 0 {
					kept++
				} else {
					dropped++
				}
				forAll, forOverride := warned(was, is, i)
				gone := l.Used == 0
				var right bool
				switch {
				case v == 0:
					right = gone == forAll
				case forOverride:
					right = gone
				default: // an override may keep counters that are reset for all others
					right = !gone || forAll
				}
				g.Expect(right).To(BeTrue(), "limit %d of variant %d: %+v to %+v", i, v, was, is)
			}
		}
	}
	g.Expect(min(kept, dropped)).To(BeNumerically(">", 1000))
}

// warned reports whether a warning names the counters of limit i, for all callers or
// for the keys of the override.
func warned(was, is *plan.Plan, i int) (forAll, forOverride bool) {
	for _, warning := range DroppedCounters(was, is) {
		forAll = forAll || strings.HasPrefix(warning, at("limits", i).String()+".")
		forOverride = forOverride || strings.HasPrefix(warning, "spec.overrides[0].") && strings.Contains(warning, "limit "+is.Limits[i].Name+" ")
	}
	return forAll, forOverride
}

// edited returns a plan before and after a random edit.
func edited(random *rand.Rand) (was, is *plan.Plan) {
	was = randomPlan(random)
	was.Counting, was.DenyWhen = plan.CountAdmitted, plan.ThresholdExceeded
	copied := *was
	copied.Limits, copied.Overrides = slices.Clone(was.Limits), slices.Clone(was.Overrides)
	is = &copied
	l := &is.Limits[random.IntN(2)]
	switch random.IntN(7) {
	case 0:
		l.Threshold++
	case 1:
		l.WindowMillis++
	case 2:
		l.BucketMicros += 10
	case 3:
		l.Algorithm = []plan.Algorithm{plan.FixedWindow, plan.SlidingLog, plan.SlidingWindow, plan.TokenBucket, plan.GCRA}[random.IntN(5)]
	case 4:
		if len(is.Overrides) == 0 {
			l.Name = "z"
		}
	case 5:
		if len(is.Overrides) > 0 {
			is.Overrides[0].Name = "z"
		}
	default:
		if len(is.Overrides) > 0 {
			o := is.Overrides[0].Limits[0]
			o.WindowMillis, o.Threshold = randomOf(random, 0, o.WindowMillis, 7), randomOf(random, 0, o.Threshold, 6)
			is.Overrides[0].Limits = []plan.LimitOverride{o}
		}
	}
	return was, is
}

func randomOf(random *rand.Rand, from ...int64) int64 { return from[random.IntN(len(from))] }

// randomPlan returns a plan with two limits and perhaps an override. Its numbers are
// small, so that one limit often makes the other ineffective.
func randomPlan(random *rand.Rand) *plan.Plan {
	pick := func(from ...int64) int64 { return randomOf(random, from...) }
	all := []plan.Algorithm{plan.FixedWindow, plan.SlidingLog, plan.SlidingWindow, plan.TokenBucket, plan.GCRA, plan.Suppressed}
	p := &plan.Plan{
		Namespace: "n", Name: "p", Mode: plan.ModeEnforce, OnMissingKey: plan.MissingKeyShare, FailureMode: plan.FailOpen,
		Counting: plan.CountAdmitted, DenyWhen: plan.ThresholdExceeded, Key: []plan.KeyPart{{Type: plan.KeyPrincipal}},
	}
	if random.IntN(4) == 0 {
		p.Counting = plan.CountAttempts
	}
	if random.IntN(4) == 0 {
		p.DenyWhen = plan.ThresholdReached
	}
	for _, name := range []string{"a", "b"} {
		l := plan.Limit{
			Name: name, Algorithm: all[random.IntN(len(all))], Threshold: pick(1, 2, 3, 4, 5, 8, 12, 20, 40),
			WindowMillis: pick(2, 3, 5, 10, 20), BlockMillis: pick(0, 0, 0, 3),
		}
		switch {
		case l.Algorithm.Refills():
			l.Burst = pick(1, 2, 3, 5, 8)
		case l.Algorithm.Buckets():
			l.BucketMicros = l.WindowMillis * 1000 / pick(2, 3, 60)
		}
		if l.Algorithm == plan.Suppressed {
			l.HardLimitPercent = 150
		}
		p.Limits = append(p.Limits, l)
	}
	if random.IntN(2) == 0 {
		o := plan.LimitOverride{Name: []string{"a", "b"}[random.IntN(2)]}
		switch random.IntN(3) {
		case 0:
			o.Threshold = pick(2, 4, 8, 40)
		case 1:
			o.WindowMillis = pick(2, 5, 20)
		default:
			o.Threshold, o.Burst = pick(2, 8), pick(0, 1, 3, 8)
		}
		p.Overrides = []plan.Override{{Name: "o", Keys: []string{"k"}, Action: plan.ActionLimit, Limits: []plan.LimitOverride{o}}}
	}
	return p
}
