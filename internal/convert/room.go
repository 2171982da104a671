// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/warning"
)

// converted is a policy with its plan and its place in the source. The prices are computed once: an expression takes long
// to compile.
type converted struct {
	at         string
	policy     *v1alpha1.RateLimitPolicy
	plan       *plan.Plan
	keyPrice   time.Duration   // of the expressions of the key and the overrides
	whenPrices []time.Duration // by match
}

func newConverted(at string, policy *v1alpha1.RateLimitPolicy, p *plan.Plan) converted {
	f := converted{at: at, policy: policy, plan: p, keyPrice: keyPrice(p)}
	for i := range p.Matches {
		f.whenPrices = append(f.whenPrices, priceOf[bool](p.Matches[i].When))
	}
	return f
}

// loseCrowded removes the policies that have no room in a decision with the others of their Namespace, and notes their
// limits as lost: beyond 16 policies, 64 limits or a price of 1 ms, the failureMode of a policy would decide.
//
// It asks for a request of each match. A match with a when counts for the price only: whether it holds depends on the
// request.
func (c *collector) loseCrowded() {
	byPlan := map[*plan.Plan]*converted{}
	var plans []*plan.Plan
	for i := range c.found {
		byPlan[c.found[i].plan] = &c.found[i]
		plans = append(plans, c.found[i].plan)
	}
	snapshot := index.NewSnapshot(0, plans)
	lost := map[*converted]bool{}
	for _, p := range plans {
		for _, a := range c.requestsOf(p, plans) {
			r := capacity{p.Namespace, plan.MaxNamespacePolicies, plan.MaxNamespaceLimits, expression.MaxPrice}
			for _, d := range demandsOf(snapshot.Match(a), byPlan, p.Namespace, lost) {
				if problem := r.take(d); problem != "" {
					lost[d.of] = true
					c.lose(d.of.at, "%s", problem)
				}
			}
		}
	}
	c.found = slices.DeleteFunc(c.found, func(f converted) bool { return lost[byPlan[f.plan]] })
}

// requestsOf returns a request for each match of the policy and each of its hosts.
func (c *collector) requestsOf(p *plan.Plan, plans []*plan.Plan) (requests []*plan.Attributes) {
	for i := range p.Matches {
		m := &p.Matches[i]
		hosts := m.Hosts
		if len(hosts) == 0 {
			hosts = []string{""}
		}
		for _, host := range hosts {
			a := warning.RequestOf(m, host)
			if c.joinsEntries {
				addEntries(a, plans)
			}
			requests = append(requests, a)
		}
	}
	return requests
}

// addEntries adds entries of the matches with the same domain to the only descriptor of the request, each key once.
func addEntries(a *plan.Attributes, plans []*plan.Plan) {
	var all plan.Descriptor
	if len(a.Descriptors) > 0 {
		all = slices.Clone(a.Descriptors[0])
	}
	for _, p := range plans {
		for i := range p.Matches {
			for _, entry := range p.Matches[i].SampleDescriptor() {
				isKnown := slices.ContainsFunc(all, func(e plan.Entry) bool { return e.Key == entry.Key })
				if p.Matches[i].Domain == a.Domain && !isKnown {
					all = append(all, entry)
				}
			}
		}
	}
	if len(all) > 0 {
		a.Descriptors = []plan.Descriptor{all}
	}
}

// demand is what one policy needs for a request.
type demand struct {
	of     *converted
	price  time.Duration
	limits int // 0 if it depends on an expression whether the policy applies
}

// demandsOf returns the demands of the policies of the Namespace in the order in which the engine serves them.
func demandsOf(found []plan.Found, byPlan map[*plan.Plan]*converted, namespace string, lost map[*converted]bool) (demands []demand) {
	for _, f := range found {
		of := byPlan[f.Plan]
		if f.Plan.Namespace != namespace || lost[of] {
			continue
		}
		if n := len(demands); n == 0 || demands[n-1].of != of {
			demands = append(demands, demand{of: of, price: of.keyPrice})
		}
		d := &demands[len(demands)-1]
		d.price += of.whenPrices[f.Match]
		if f.Plan.Matches[f.Match].When == "" {
			d.limits = len(f.Plan.Limits)
		}
	}
	slices.SortStableFunc(demands, func(a, b demand) int {
		return cmp.Or(cmp.Compare(modeRank(a.of.plan), modeRank(b.of.plan)), cmp.Compare(a.of.plan.Name, b.of.plan.Name))
	})
	return demands
}

// noteTotalPrice notes that one call may match more policies than have room, if its descriptors match different ones.
func (c *collector) noteTotalPrice() {
	var sum time.Duration
	for _, f := range c.found {
		sum += f.keyPrice
		for _, price := range f.whenPrices {
			sum += price
		}
	}
	if sum > expression.MaxPrice {
		c.note("", "the expressions of all policies may take %s, and Weir evaluates at most %s of them for one call. If the descriptors of a call match more, "+
			"convert parts of the source to several Namespaces", expression.FormatPrice(sum), expression.FormatPrice(expression.MaxPrice))
	}
}

func modeRank(p *plan.Plan) int {
	if p.Mode == plan.ModeShadow {
		return 1
	}
	return 0
}

func keyPrice(p *plan.Plan) (sum time.Duration) {
	for i := range p.Key {
		sum += priceOf[string](p.Key[i].Expression)
	}
	for i := range p.Overrides {
		sum += priceOf[bool](p.Overrides[i].When)
	}
	return sum
}

// priceOf returns 0 for no expression. The policy is valid, so its expressions compile.
func priceOf[T expression.Result](text string) time.Duration {
	if text == "" {
		return 0
	}
	compiled, err := expression.Compile[T](text)
	if err != nil {
		return 0
	}
	return compiled.Price()
}

// capacity is what one Namespace has left in a decision.
type capacity struct {
	namespace        string
	policies, limits int
	price            time.Duration
}

// take takes what the policy needs, or returns why it has no room.
func (r *capacity) take(d demand) string {
	if d.price > r.price {
		return fmt.Sprintf("its expressions (%s) have no room: the expressions of all policies of Namespace %s may take %s for one request; convert parts of the source to several Namespaces",
			expression.FormatPrice(d.price), r.namespace, expression.FormatPrice(expression.MaxPrice))
	}
	if d.limits > 0 && (r.policies == 0 || d.limits > r.limits) {
		return fmt.Sprintf("one request may match %d policies with %d limits of Namespace %s; convert parts of the source to several Namespaces",
			plan.MaxNamespacePolicies, plan.MaxNamespaceLimits, r.namespace)
	}
	r.price -= d.price
	if d.limits > 0 {
		r.policies, r.limits = r.policies-1, r.limits-d.limits
	}
	return ""
}
