// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// onAll lets a policy match the requests for shop.example, and every descriptor of Envoy.
func onAll(when string) func(*plan.Plan) {
	return matching(plan.Match{Hosts: []string{"shop.example"}, When: when}, plan.Match{Domain: "edge", When: when})
}

var userKey = plan.KeyPart{Type: plan.KeyDescriptor, Descriptor: "user"}

// unrelatedPlans are policies of a platform. What clients send decides about them, what tenants have must not.
func unrelatedPlans() []*plan.Plan {
	return []*plan.Plan{
		makePlan("platform/all", onAll(""), threshold(1)),
		makePlan("platform/banned", onAll(""), keyed(apiKey), missing(plan.MissingKeySkip), threshold(2),
			overridden(deny(when(`request.headers["user-agent"] == "evilbot"`)))),
		makePlan("platform/closed", onAll(`request.path != "/free"`), keyed(apiKey, plan.KeyPart{Type: plan.KeyRemoteAddress}),
			fails(plan.FailClosed), threshold(2)),
		makePlan("platform/user", onAll(""), keyed(userKey), missing(plan.MissingKeySkip), fails(plan.FailLocal), threshold(2)),
	}
}

// hostilePlans are the worst policies of three tenants for the same requests.
func hostilePlans(g *WithT, edits ...func(*plan.Plan)) (plans []*plan.Plan) {
	add := func(id string, more ...func(*plan.Plan)) {
		plans = append(plans, makePlan(id, append(slices.Concat([]func(*plan.Plan){onAll(""), threshold(1000)}, more), edits...)...))
	}
	quarter := costly(g, 0.26)
	for i := range 20 {
		add(fmt.Sprintf("a/limits-%02d", i), withLimits(16))
		add(fmt.Sprintf("b/fails-%02d", i), onAll(fmt.Sprintf(`request.headers["x-tier"] == "%d"`, i)))
		add(fmt.Sprintf("c/costly-%02d", i), onAll(quarter), keyed(userKey, apiKey), missing(plan.MissingKeyDeny))
	}
	add("a/users", keyed(userKey), withLimits(16))
	add("b/key", keyed(expression(`descriptor["user"] + request.headers["user-agent"]`)))
	add("c/override", overridden(allow(when(`request.headers.exists(n, n == "x-tier")`)), deny(when(`request.path.contains("..")`))))
	return plans
}

// platformOf returns the entries of the platform's policies in the last call, in order.
func (f *fixture) platformOf() (entries []string) {
	if f.store.last == nil {
		return nil
	}
	for i := range f.store.last.Entries {
		if e := &f.store.last.Entries[i]; strings.HasPrefix(e.Policy.ID(), "platform/") {
			entries = append(entries, fmt.Sprintf("%s %q %d %v %v %q", e.Policy.ID(), e.Key, e.Cost, e.Peek, e.Action, e.ID))
		}
	}
	slices.Sort(entries)
	return entries
}

// degraded returns the number of degraded decisions of the platform's policies.
func (f *fixture) degraded(g *WithT) (n float64) {
	families, err := f.registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() != "weir_degraded_decisions_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "namespace" && l.GetValue() == "platform" {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// seen is what a check did to the platform's policies.
type seen struct {
	allowed bool
	by      string // the policy that denied
	reason  limiter.Reason
	entries []string
	states  map[string]int64 // used, by policy and limit
	err     string
}

// see decides the check without earlier counters, and again, with the counters of the first one.
func (f *fixture) see(t *testing.T, check func() *limiter.Check) (both [2]seen) {
	t.Helper()
	f.store.empty()
	for i := range both {
		f.store.last = nil
		d, err := f.Decide(t.Context(), check())
		if err != nil {
			both[i].err = err.Error()
			continue
		}
		s := seen{allowed: d.Allowed, by: d.Policy, reason: d.Reason, entries: f.platformOf(), states: map[string]int64{}}
		for j := range d.Limits {
			if l := &d.Limits[j]; strings.HasPrefix(l.Policy, "platform/") {
				s.states[l.Policy+"/"+l.Limit] = l.Used
			}
		}
		both[i] = s
	}
	return both
}

// disturbed returns how the policies that beside has in addition change what the check does to the
// platform's policies. quiet is true if the former deny nothing.
func disturbed(t *testing.T, alone, beside *fixture, quiet bool, check func() *limiter.Check) (faults []string) {
	t.Helper()
	g := NewWithT(t)
	before := beside.degraded(g)
	want, got := alone.see(t, check), beside.see(t, check)
	if n := beside.degraded(g) - before; n > 0 {
		faults = append(faults, fmt.Sprintf("%v decisions of the platform's policies degraded", n))
	}
	for i := range want {
		faults = append(faults, want[i].changed(&got[i])...)
		if quiet {
			faults = append(faults, want[i].denied(&got[i])...)
		}
		if want[i].allowed && !got[i].allowed {
			break // the counters differ from here on: a denial spends nothing
		}
	}
	return faults
}

// changed returns what no other policy may change.
func (w *seen) changed(got *seen) (faults []string) {
	if w.err != got.err {
		faults = append(faults, fmt.Sprintf("error %q, alone %q", got.err, w.err))
	}
	if !w.allowed && got.allowed {
		faults = append(faults, "allowed, alone denied by "+w.by)
	}
	if !slices.Equal(w.entries, got.entries) {
		faults = append(faults, fmt.Sprintf("calls with %v, alone %v", got.entries, w.entries))
	}
	if w.allowed && !got.allowed && strings.HasPrefix(got.by, "platform/") {
		faults = append(faults, "allowed alone, denied by "+got.by)
	}
	return faults
}

// denied returns what only a policy that denies may change. One without room that matches because its
// expression failed denies in every mode.
func (w *seen) denied(got *seen) (faults []string) {
	if w.allowed && !got.allowed && got.reason != limiter.ReasonMissingKey {
		faults = append(faults, fmt.Sprintf("denied by %s: %s", got.by, got.reason))
	}
	if got.allowed && !maps.Equal(w.states, got.states) {
		faults = append(faults, fmt.Sprintf("states %v, alone %v", got.states, w.states))
	}
	return faults
}

// clientInput is what a client of a proxy can choose.
type clientInput struct {
	host, path, method, name, value, user, principal string
	repeat, many                                     uint16
	cost                                             int64
	flags                                            uint8
}

// check returns the check that a frontend makes of the input. Its values are up to 10,000 bytes long, its
// headers up to 200, its descriptors up to 64.
func (in *clientInput) check() *limiter.Check {
	long := func(text string) string { return strings.Repeat(text, 1+int(in.repeat)%10_000/max(1, len(text))) }
	a := plan.Attributes{
		Host: in.host, Path: long(in.path), Method: in.method, Principal: in.principal,
		RemoteAddress: netip.AddrFrom4([4]byte{192, 0, 2, byte(in.many)}),
		Headers:       map[string]string{strings.ToLower(in.name): long(in.value), "x-api-key": in.user},
	}
	if in.flags&1 != 0 {
		a.Host = "shop.example"
	}
	for i := range int(in.many) % 200 {
		a.Headers[fmt.Sprint("h-", i)] = in.value
	}
	check := &limiter.Check{Attributes: a, Cost: min(max(1, in.cost), plan.MaxCost), Peek: in.flags&2 != 0}
	if in.flags&4 == 0 {
		return check
	}
	check.Attributes.Domain, check.Attributes.Host = "edge", ""
	for i := range 1 + int(in.many)%limiter.MaxDescriptors {
		user := in.user
		if in.flags&8 != 0 {
			user = fmt.Sprint(in.user, i)
		}
		check.Attributes.Descriptors = append(check.Attributes.Descriptors, plan.Descriptor{
			{Key: "user", Value: user}, {Key: in.name, Value: long(in.value)}, {Key: in.value, Value: in.path},
		})
		if in.flags&16 != 0 {
			check.Hits = append(check.Hits, limiter.Hits{Cost: check.Cost, Peek: i%2 == 1})
		}
	}
	return check
}

// FuzzUnrelatedPolicies checks that no input of a client, with the worst policies of tenants, changes what
// the policies of the platform do, or lets one of their decisions be degraded. A tenant's policy may deny a
// request, which then spends nothing.
func FuzzUnrelatedPolicies(f *testing.F) {
	for _, repeat := range []uint16{0, 8191, 9000} {
		for _, flags := range []uint8{0, 1, 3, 4, 5, 12, 28} {
			for _, name := range []string{"x-tier", "user-agent", "user"} {
				f.Add("shop.example", "/a/../b", "GET", name, "v", "alice", "bob", repeat, uint16(63), int64(1), flags)
			}
		}
	}
	f.Add("shop.example", "/free", "GET", "user-agent", "evilbot", "alice", "", uint16(0), uint16(131), int64(3), uint8(1))
	g := NewWithT(f)
	alone := newFixture(unrelatedPlans()...)
	enforced := newFixture(append(hostilePlans(g), unrelatedPlans()...)...)
	shadow := newFixture(append(hostilePlans(g, mode(plan.ModeShadow)), unrelatedPlans()...)...)
	f.Fuzz(func(t *testing.T, host, path, method, name, value, user, principal string, repeat, many uint16, cost int64, flags uint8) {
		in := &clientInput{host, path, method, name, value, user, principal, repeat, many, cost, flags}
		NewWithT(t).Expect(disturbed(t, alone, enforced, false, in.check)).To(BeEmpty())
		NewWithT(t).Expect(disturbed(t, alone, shadow, true, in.check)).To(BeEmpty())
	})
}

// Without these, the fuzz test could pass because it finds nothing.
func TestDisturbancesAreFound(t *testing.T) {
	check := func() *limiter.Check { return forHost() }
	alone := func() *fixture { return newFixture(unrelatedPlans()...) }
	for name, beside := range map[string]*fixture{
		"policies of too many tenants": newFixture(append(allOf(40, 1, 16), unrelatedPlans()...)...),
		"another threshold":            newFixture(append(unrelatedPlans()[1:], makePlan("platform/all", onAll(""), threshold(5)))...),
		"a policy that is missing":     newFixture(unrelatedPlans()[1:]...),
		"a policy that denies":         newFixture(append(unrelatedPlans(), makePlan("platform/more", onAll(""), threshold(0)))...),
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(disturbed(t, alone(), beside, false, check)).NotTo(BeEmpty())
		})
	}
	t.Run("a call that fails", func(t *testing.T) {
		beside := newFixture(append(unrelatedPlans(), makePlan("a/bad", onAll("")))...)
		beside.store.failWith("a/bad", lost())
		NewWithT(t).Expect(disturbed(t, alone(), beside, false, check)).NotTo(BeEmpty())
	})
}
