// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/flood"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
)

// newExceptionFixture is newFixture with exceptions that end by the clock of the store.
func newExceptionFixture(records ...plan.Record) *fixture {
	f := newFixture()
	f.registry = prometheus.NewRegistry()
	now := func() time.Time { return f.store.now }
	low := func() bool { return f.store.low }
	f.Engine = engine.New(engine.Options{
		Store: f.store, Registerer: f.registry, Logger: slog.New(slog.DiscardHandler), Now: now,
		Local:    memory.NewStore(memory.Options{Keys: 1000, Now: now}),
		Replicas: func() int { return f.replicas }, Floods: flood.Limits{}, MemoryLow: low,
	})
	f.use(1, records...)
	return f
}

func (f *fixture) use(revision int64, records ...plan.Record) {
	f.Use(index.NewSnapshotOf(revision, records))
}

// exceptionFor returns an exception of policy a/x for the key of one part that lasts an hour by the clock of a new
// test store.
func exceptionFor(name, key string, limits ...plan.ExceptionLimit) *plan.Exception {
	return &plan.Exception{
		Namespace: "a", Name: name, Policy: "x", Key: []string{key}, Action: plan.ActionLimit, Limits: limits,
		UntilMillis: newTestStore().now.Add(time.Hour).UnixMilli(),
	}
}

func burstOf(threshold int64) plan.ExceptionLimit {
	return plan.ExceptionLimit{Name: "burst", Threshold: threshold}
}

func allowing(e *plan.Exception) *plan.Exception {
	e.Action, e.Limits = plan.ActionAllow, nil
	return e
}

func until(e *plan.Exception, length time.Duration) *plan.Exception {
	e.UntilMillis = newTestStore().now.Add(length).UnixMilli()
	return e
}

// numbers describes the limits of the decision, as in "burst 5 gold raised".
func numbers(d *limiter.Decision) []string {
	var all []string
	for _, l := range d.Limits {
		all = append(all, strings.Join(strings.Fields(fmt.Sprintln(l.Limit, l.Threshold, l.Override, l.Exception)), " "))
	}
	return all
}

// twoLimits is a policy with the limits burst and daily, of which gold has more.
func twoLimits(overrides ...plan.Override) *plan.Plan {
	return makePlan("a/x", keyed(apiKey), func(p *plan.Plan) {
		p.Limits = append(p.Limits, plan.Limit{Name: "daily", Algorithm: plan.FixedWindow, Threshold: 100, WindowMillis: 86_400_000})
		p.Overrides = overrides
	})
}

func gold(changed ...plan.LimitOverride) plan.Override {
	return plan.Override{Name: "gold", Keys: []string{"acme"}, Action: plan.ActionLimit, Limits: changed}
}

// Records come and go one by one, in any order; an exception is in force while both it and its policy exist.
func TestExceptionsAndPoliciesComeOneByOne(t *testing.T) {
	g := NewWithT(t)
	p, edited := twoLimits(), twoLimits()
	edited.Limits[1].Threshold = 200
	raised, later := exceptionFor("raised", "acme", burstOf(20)), until(exceptionFor("later", "acme", burstOf(30)), 2*time.Hour)
	f, s := newExceptionFixture(), index.NewSnapshot(1, nil)
	change := func(id string, r plan.Record) {
		s = s.With(s.Revision()+1, map[string]plan.Record{id: r})
		f.Use(s)
	}
	change(raised.ID(), raised)
	change(p.ID(), p)
	burst := func() string {
		d, err := f.Decide(t.Context(), &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: withKey("acme")})
		g.Expect(err).NotTo(HaveOccurred())
		return numbers(d)[0]
	}
	g.Expect(burst()).To(Equal("burst 20 raised"))
	change(later.ID(), later)
	g.Expect(burst()).To(Equal("burst 30 later"))
	change(p.ID(), edited)
	g.Expect(burst()).To(Equal("burst 30 later"))
	change(later.ID(), nil)
	g.Expect(burst()).To(Equal("burst 20 raised"))
	change(p.ID(), nil)
	change(p.ID(), p)
	g.Expect(burst()).To(Equal("burst 20 raised"))
	change(raised.ID(), nil)
	g.Expect(burst()).To(Equal("burst 3"))
}

// An exception changes the numbers of the override that each request selects, also if the requests of its key take turns.
func TestAnExceptionFollowsTheOverrideOfEachRequest(t *testing.T) {
	g := NewWithT(t)
	reads := plan.Override{Name: "reads", When: `request.method == "GET"`, Action: plan.ActionLimit, Limits: []plan.LimitOverride{{Name: "daily", Threshold: 500}}}
	f := newExceptionFixture()
	f.Use(index.NewSnapshotOf(1, []plan.Record{twoLimits(reads), exceptionFor("raised", "acme", burstOf(20))}))
	for range 3 {
		for method, daily := range map[string]string{"GET": "daily 500 reads raised", "POST": "daily 100 raised"} {
			attributes := withKey("acme")
			attributes.Method = method
			d, err := f.Decide(t.Context(), &limiter.Check{Policies: []string{"a/x"}, Cost: 1, Attributes: attributes})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(numbers(d)[1]).To(Equal(daily))
		}
	}
}

func TestOrderOfOverridesAndExceptions(t *testing.T) {
	raised := exceptionFor("raised", "acme", burstOf(20))
	for name, tc := range map[string]struct {
		policy     *plan.Plan
		exceptions []*plan.Exception
		key        string // default: acme
		reason     limiter.Reason
		want       []string
	}{
		"no exception": {
			policy: twoLimits(), reason: limiter.ReasonAllowed, want: []string{"burst 3", "daily 100"},
		},
		"an exception": {
			policy: twoLimits(), exceptions: []*plan.Exception{raised},
			reason: limiter.ReasonAllowed, want: []string{"burst 20 raised", "daily 100 raised"},
		},
		"an exception for another key": {
			policy: twoLimits(), exceptions: []*plan.Exception{raised}, key: "globex",
			reason: limiter.ReasonAllowed, want: []string{"burst 3", "daily 100"},
		},
		"an exception replaces numbers of an override, and keeps its others": {
			policy:     twoLimits(gold(plan.LimitOverride{Name: "burst", Threshold: 5}, plan.LimitOverride{Name: "daily", Threshold: 500})),
			exceptions: []*plan.Exception{raised}, reason: limiter.ReasonAllowed, want: []string{"burst 20 gold raised", "daily 500 gold raised"},
		},
		"an override that denies": {
			policy:     twoLimits(plan.Override{Name: "denied", Keys: []string{"acme"}, Action: plan.ActionDeny}),
			exceptions: []*plan.Exception{allowing(exceptionFor("all", "acme"))}, reason: limiter.ReasonDeniedByOverride,
		},
		"an override that exempts": {
			policy:     twoLimits(plan.Override{Name: "office", Keys: []string{"acme"}, Action: plan.ActionAllow}),
			exceptions: []*plan.Exception{raised}, reason: limiter.ReasonExempt,
		},
		"an exception that exempts": {
			policy:     twoLimits(gold(plan.LimitOverride{Name: "burst", Threshold: 5})),
			exceptions: []*plan.Exception{allowing(exceptionFor("all", "acme"))}, reason: limiter.ReasonExempt,
		},
		"of two the one that ends last": {
			policy: twoLimits(), reason: limiter.ReasonAllowed, want: []string{"burst 7 later", "daily 100 later"},
			exceptions: []*plan.Exception{until(exceptionFor("later", "acme", burstOf(7)), 2*time.Hour), raised},
		},
		"of two that end together the first by name": {
			policy: twoLimits(), reason: limiter.ReasonAllowed, want: []string{"burst 7 an-earlier-name", "daily 100 an-earlier-name"},
			exceptions: []*plan.Exception{raised, exceptionFor("an-earlier-name", "acme", burstOf(7))},
		},
		"a limit that the policy no longer has": {
			policy: twoLimits(), reason: limiter.ReasonAllowed, want: []string{"burst 3", "daily 100"},
			exceptions: []*plan.Exception{exceptionFor("old", "acme", plan.ExceptionLimit{Name: "hourly", Threshold: 5})},
		},
		"a burst for a limit without one": {
			policy: twoLimits(), reason: limiter.ReasonAllowed, want: []string{"burst 3", "daily 100"},
			exceptions: []*plan.Exception{exceptionFor("old", "acme", plan.ExceptionLimit{Name: "burst", Burst: 5})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			records := []plan.Record{tc.policy}
			for _, e := range tc.exceptions {
				g.Expect(e.Validate()).To(Succeed())
				records = append(records, e)
			}
			key := "acme"
			if tc.key != "" {
				key = tc.key
			}
			f := newExceptionFixture(records...)
			for _, check := range []*limiter.Check{
				clientCheck(key),
				{Policies: []string{"a/x"}, Attributes: withKey(key), Cost: 1},
			} {
				d := f.decide(t, check)
				g.Expect(d.Reason).To(Equal(tc.reason))
				g.Expect(numbers(d)).To(Equal(tc.want))
			}
		})
	}
}

// The keys of exceptions are encoded as the keys of requests are.
func TestKeysOfExceptions(t *testing.T) {
	shared := func() *plan.Exception { e := exceptionFor("x", "", burstOf(20)); e.Key = nil; return e }
	address := plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: 32, IPv6PrefixLength: 64}
	long := strings.Repeat("é", 255)
	of := func(parts ...string) *plan.Exception {
		e := exceptionFor("x", "", burstOf(20))
		e.Key = parts
		return e
	}
	for name, tc := range map[string]struct {
		parts      []plan.KeyPart
		exception  *plan.Exception
		attributes plan.Attributes
		want       bool
	}{
		"the shared budget":            {nil, shared(), plan.Attributes{}, true},
		"the budget without a key":     {[]plan.KeyPart{apiKey}, shared(), plan.Attributes{}, true},
		"the budget without two parts": {[]plan.KeyPart{apiKey, address}, shared(), plan.Attributes{}, true},
		"no budget without one part":   {[]plan.KeyPart{apiKey, address}, shared(), withKey("acme"), false},
		"no budget without a key":      {[]plan.KeyPart{apiKey}, shared(), withKey("acme"), false},
		"a key to be escaped":          {[]plan.KeyPart{apiKey}, of("a{b}:c|-%"), withKey("a{b}:c|-%"), true},
		"two parts":                    {[]plan.KeyPart{apiKey, address}, of("acme", "10.0.0.1"), plan.Attributes{Headers: withKey("acme").Headers, RemoteAddress: from("10.0.0.1").RemoteAddress}, true},
		"a separator is not two parts": {[]plan.KeyPart{apiKey}, of("a", "b"), withKey("a|b"), false},
		"a network":                    {[]plan.KeyPart{address}, of("2001:db8::/64"), from("2001:db8::7"), true},
		"a hashed key":                 {[]plan.KeyPart{apiKey}, of(long), withKey(long), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := newExceptionFixture(makePlan("a/x", keyed(tc.parts...)), tc.exception)
			d := f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Attributes: tc.attributes, Cost: 1})
			want := map[bool]string{true: "x"}[tc.want]
			g.Expect(d.Limits[0].Exception).To(Equal(want))
		})
	}
}

// A missing key is denied or skipped before an exception of the shared budget is looked for.
func TestAnExceptionDoesNotAdmitMissingKeys(t *testing.T) {
	g := NewWithT(t)
	all := allowing(exceptionFor("all", ""))
	all.Key = nil
	f := newExceptionFixture(makePlan("a/x", keyed(apiKey), missing(plan.MissingKeyDeny)), all)
	g.Expect(f.decide(t, &limiter.Check{Policies: []string{"a/x"}, Cost: 1}).Reason).To(Equal(limiter.ReasonMissingKey))
}

// Counters stay when an exception begins and when it ends.
func TestCountersStayUnderAnException(t *testing.T) {
	for _, algorithm := range []plan.Algorithm{plan.FixedWindow, plan.SlidingLog, plan.SlidingWindow} {
		for _, counting := range []plan.Counting{plan.CountAdmitted, plan.CountAttempts} {
			t.Run(string(algorithm)+" "+string(counting), func(t *testing.T) {
				g := NewWithT(t)
				policy := makePlan("a/x", keyed(apiKey), threshold(500), func(p *plan.Plan) {
					p.Limits[0].Algorithm, p.Counting, p.Limits[0].WindowMillis = algorithm, counting, 7_200_000
					if algorithm == plan.SlidingWindow {
						p.Limits[0].BucketMicros = 120_000_000
					}
				})
				f := newExceptionFixture(policy)
				spend := func(cost int64) *limiter.Decision {
					check := clientCheck("acme")
					check.Cost = cost
					return f.decide(t, check)
				}
				g.Expect(spend(500).Limits[0].Remaining).To(BeZero())
				f.use(2, policy, exceptionFor("raised", "acme", burstOf(2000)))
				g.Expect(spend(1).Limits[0].Remaining).To(Equal(int64(1499)))
				g.Expect(spend(1499).Allowed).To(BeTrue())
				g.Expect(spend(1).Allowed).To(BeFalse())
				f.store.now = f.store.now.Add(time.Hour)
				d := spend(1)
				g.Expect([]any{d.Allowed, d.Limits[0].Exception, d.Limits[0].Remaining}).To(Equal([]any{false, "", int64(0)}))
			})
		}
	}
}

// Limits that refill have one state for all exceptions of a key: a new exception starts no full bucket.
func TestExceptionsShareABucket(t *testing.T) {
	for _, algorithm := range []plan.Algorithm{plan.TokenBucket, plan.GCRA} {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			policy := makePlan("a/x", keyed(apiKey), threshold(60), func(p *plan.Plan) {
				p.Limits[0].Algorithm, p.Limits[0].Burst = algorithm, 10
			})
			raise := func(name string) *plan.Exception {
				return exceptionFor(name, "acme", plan.ExceptionLimit{Name: "burst", Threshold: 120, Burst: 20})
			}
			f := newExceptionFixture(policy, raise("first"))
			drain := func() int {
				for n := 0; ; n++ {
					if !f.decide(t, clientCheck("acme")).Allowed {
						return n
					}
				}
			}
			g.Expect(drain()).To(Equal(20))
			f.use(2, policy, raise("second"))
			g.Expect(drain()).To(BeZero())
			f.use(3, policy, until(raise("second"), 2*time.Hour))
			g.Expect(drain()).To(BeZero(), "another end")
			f.use(4, policy)
			g.Expect(drain()).To(Equal(10), "the bucket of the policy")

			f.use(5, policy, exceptionFor("wider", "acme", plan.ExceptionLimit{Name: "burst", Burst: 15}))
			g.Expect(drain()).To(Equal(5), "the same rate counts in the same bucket")
			found, err := f.Reset(t.Context(), "a/x", limiter.KeyName{Parts: []string{"acme"}})
			g.Expect([]any{found, err}).To(Equal([]any{true, nil}))
			f.use(6, policy, raise("third"))
			g.Expect(drain()).To(Equal(20), "reset deletes the state under exceptions")
		})
	}
}

// An exception ends for the key at its end, not a millisecond earlier, and not while Redis is away.
func TestTheEndOfAnException(t *testing.T) {
	g := NewWithT(t)
	f := newExceptionFixture(makePlan("a/x", keyed(apiKey), fails(plan.FailLocal)), exceptionFor("raised", "acme", burstOf(20)))
	end := f.store.now.Truncate(time.Millisecond).Add(time.Hour)
	inForce := func() string { return f.decide(t, clientCheck("acme")).Limits[0].Exception }
	f.store.now = end.Add(-time.Microsecond)
	g.Expect(inForce()).To(Equal("raised"))
	f.store.err = lost()
	g.Expect(inForce()).To(Equal("raised"), "the share of this replica")
	f.store.now = end
	g.Expect(inForce()).To(BeEmpty())
	f.store.err = nil
	g.Expect(inForce()).To(BeEmpty())
}

// An edit of the policy applies to keys with an exception, and the exception to the edited policy.
func TestAnEditUnderAnException(t *testing.T) {
	g := NewWithT(t)
	exception := exceptionFor("raised", "acme", burstOf(20))
	f := newExceptionFixture(twoLimits(), exception)
	f.decide(t, clientCheck("acme"))
	edited := twoLimits()
	edited.Limits[1].Threshold = 50
	f.use(2, edited, exception)
	d := f.decide(t, clientCheck("acme"))
	g.Expect(numbers(d)).To(Equal([]string{"burst 20 raised", "daily 50 raised"}))
	g.Expect(d.Limits[0].Used).To(Equal(int64(2)))
	f.use(3, edited)
	g.Expect(numbers(f.decide(t, clientCheck("acme")))).To(Equal([]string{"burst 3", "daily 50"}))
}

// A live block stays, and an exception with action Allow passes it while it lasts.
func TestBlocksUnderAnException(t *testing.T) {
	g := NewWithT(t)
	policy := makePlan("a/x", keyed(apiKey), func(p *plan.Plan) { p.Limits[0].BlockMillis = (2 * time.Hour).Milliseconds() })
	f := newExceptionFixture(policy)
	for range 4 {
		f.decide(t, clientCheck("acme"))
	}
	f.use(2, policy, exceptionFor("raised", "acme", burstOf(20)))
	g.Expect(f.decide(t, clientCheck("acme")).Reason).To(Equal(limiter.ReasonBlocked))
	f.use(3, policy, allowing(exceptionFor("all", "acme")))
	g.Expect(f.decide(t, clientCheck("acme")).Reason).To(Equal(limiter.ReasonExempt))
	f.store.now = f.store.now.Add(time.Hour)
	g.Expect(f.decide(t, clientCheck("acme")).Reason).To(Equal(limiter.ReasonBlocked))
}

// A requested limit replaces the numbers of an exception, and counts in the state that it has without one.
func TestARequestReplacesAnException(t *testing.T) {
	for _, algorithm := range allAlgorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			policy := makePlan("a/x", byUser, threshold(10), func(p *plan.Plan) {
				l := &p.Limits[0]
				l.Algorithm, l.WindowMillis = algorithm, 60_000
				if algorithm.Refills() {
					l.Burst = 10
				}
				if algorithm.Buckets() {
					l.BucketMicros = 1_000_000
				}
				if algorithm == plan.Suppressed {
					l.HardLimitPercent = 150
				}
			})
			f := newExceptionFixture(policy)
			g.Expect(policy.Validate()).To(Succeed())
			for range 4 {
				f.decide(t, requesting(5, time.Minute))
			}
			f.use(2, policy, exceptionFor("raised", "alice", burstOf(20)))
			d := f.decide(t, requesting(5, time.Minute))
			g.Expect(d.Limits[0].Threshold).To(Equal(int64(5)))
			g.Expect(d.Limits[0].Used).To(Equal(int64(5)))
			g.Expect(f.decide(t, requestingNothing()).Limits[0].Threshold).To(Equal(int64(20)))
		})
	}
}

// A limit that an exception changes has no candidate; the others are judged beside the numbers of the exception.
func TestCandidatesUnderAnException(t *testing.T) {
	g := NewWithT(t)
	policy := twoLimits()
	policy.Candidates = []plan.LimitOverride{{Name: "burst", Threshold: 1}, {Name: "daily", Threshold: 2}}
	f := newExceptionFixture(policy, exceptionFor("raised", "acme", burstOf(20)))
	for range 4 {
		f.decide(t, clientCheck("acme"))
		f.AwaitBackground()
	}
	g.Expect(f.candidates(t)).To(ConsistOf("a/x daily allowed/allowed 2", "a/x daily allowed/denied 2"))
	f.use(2, policy, exceptionFor("raised", "acme", burstOf(20), plan.ExceptionLimit{Name: "daily", Threshold: 200}))
	f.decide(t, clientCheck("acme"))
	f.AwaitBackground()
	g.Expect(f.candidates(t)).To(ConsistOf("a/x daily allowed/allowed 2", "a/x daily allowed/denied 2"))
}

// A commit spends under the limits that are in force then, and names the exception.
func TestReservationsCommitUnderTheExceptionInForce(t *testing.T) {
	g := NewWithT(t)
	policy := makePlan("a/x", reservable)
	f := newExceptionFixture(policy)
	held := f.reserve(t, reserve(40, "a/x")).Reservation
	f.use(2, policy, exceptionFor("raised", "alice", burstOf(400)))
	committed := f.commit(t, held, 30)
	l := committed.Policies[0].Limits[0]
	g.Expect([]any{committed.Policies[0].Exception, l.Threshold, l.Used}).To(Equal([]any{"raised", int64(400), int64(30)}))

	held = f.reserve(t, reserve(300, "a/x")).Reservation
	f.use(3, policy, allowing(exceptionFor("all", "alice")))
	committed = f.commit(t, held, 300)
	l = committed.Policies[0].Limits[0]
	g.Expect([]any{committed.Policies[0].Committed, l.Threshold, l.Used}).To(Equal([]any{true, int64(100), int64(330)}))
}

// Keys with an exception are known in a flood: they never fall into the shared budget.
func TestAFloodSparesKeysWithAnException(t *testing.T) {
	g := NewWithT(t)
	f := newExceptionFixture(makePlan("a/x", keyed(apiKey)), exceptionFor("raised", "acme", burstOf(20)))
	f.store.low = true
	g.Expect(f.decide(t, clientCheck("globex")).Limits[0].Overflow).To(BeTrue())
	l := f.decide(t, clientCheck("acme")).Limits[0]
	g.Expect([]any{l.Overflow, l.Threshold, l.Used}).To(Equal([]any{false, int64(20), int64(1)}))
}

// Explanations and the state of a key name the exception, with its end.
func TestExceptionsAreShown(t *testing.T) {
	g := NewWithT(t)
	e := exceptionFor("raised", "acme", burstOf(20))
	e.Reason = "launch, ticket 4711"
	f := newExceptionFixture(twoLimits(gold(plan.LimitOverride{Name: "burst", Threshold: 5})), e)
	want := &limiter.Exception{Name: "raised", Action: plan.ActionLimit, Until: e.Until(), Reason: "launch, ticket 4711"}
	x, err := f.Explain(t.Context(), clientCheck("acme"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(x.Policies[0].Exception).To(Equal(want))
	g.Expect(x.Policies[0].Override).To(Equal("gold"))
	state, err := f.Inspect(t.Context(), "a/x", limiter.KeyName{Parts: []string{"acme"}}, plan.Attributes{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(state.Exception).To(Equal(want))
	g.Expect(state.Limits[0].Threshold).To(Equal(int64(20)))
	state, err = f.Inspect(t.Context(), "a/x", limiter.KeyName{Parts: []string{"globex"}}, plan.Attributes{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(state.Exception).To(BeNil())
}

// The metric counts the exceptions that have not ended.
func TestExceptionsAreCounted(t *testing.T) {
	g := NewWithT(t)
	f := newExceptionFixture(twoLimits(), exceptionFor("a", "acme", burstOf(20)), until(exceptionFor("b", "bob", burstOf(20)), 2*time.Hour))
	counted := func() int {
		families, err := f.registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			if family.GetName() == "weir_exceptions" {
				return int(family.GetMetric()[0].GetGauge().GetValue())
			}
		}
		return 0
	}
	g.Expect(counted()).To(Equal(2))
	f.store.now = f.store.now.Add(time.Hour)
	g.Expect(counted()).To(Equal(1))
	f.store.now = f.store.now.Add(time.Hour)
	g.Expect(counted()).To(BeZero())
}
