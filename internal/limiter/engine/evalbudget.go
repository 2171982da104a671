// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// One decision has a limited time for expressions. These are the budgets of Namespaces, in prices (see
// expression.Expression.Price). They depend neither on the clock nor on the load, so equal requests have
// equal decisions.
const (
	// namespaceBudget is the most that the policies of one Namespace get.
	namespaceBudget = expression.MaxPrice
	// ownBudget is what each of the first ownBudgets Namespaces has for itself, in the order of their
	// names. They take the rest from commonBudget, in turn.
	ownBudget    = 100 * time.Microsecond
	ownBudgets   = 8
	commonBudget = 1700 * time.Microsecond
)

// demand is the price of the expressions that one policy needs for a check.
type demand struct {
	*policy
	price time.Duration
	// uncertain is true if the policy matches only because values of the request are unreadable. A client can cause
	// it, so such policies get what the others leave.
	uncertain bool
}

// demandsOfMatches appends what the policies of the matches need, in their order: each condition, and the
// key and the overrides once for each descriptor.
func (v *preparedSnapshot) demandsOfMatches(demands []demand, matches []plan.Found, a *plan.Attributes) []demand {
	const keys = plan.MaxMatches // the bit of the key and the overrides, beside the bits of the matches
	var s scans
	for i, m := range matches {
		p := v.policies.Get(m.Plan)
		if !p.hasExpressions || m.LeftOut {
			continue
		}
		if n := len(demands); n == 0 || demands[n-1].policy != p {
			demands, s.counted = append(demands, demand{policy: p, uncertain: true}), 0
		}
		d := &demands[len(demands)-1]
		d.uncertain = d.uncertain && m.Uncertain
		d.price += s.priceOf(p.conditionPrice(m.Match), m.Match, m.Descriptor, a)
		if i == 0 || matches[i-1].Plan != m.Plan || matches[i-1].Descriptor != m.Descriptor {
			d.price += s.priceOf(p.keyPrice(), keys, m.Descriptor, a)
		}
	}
	return demands
}

// scans counts what the expressions of one policy need to search descriptors.
type scans struct {
	counted uint32 // bits of the expressions whose scans are counted, for all descriptors together
	all     int64  // scans that read all descriptors; 0 until an expression needs them
}

// priceOf returns what an evaluation for the descriptor adds to the demand. The bit identifies the
// expression. Its first evaluation for a single descriptor pays for the scans of all of them.
func (s *scans) priceOf(of price, bit, descriptor int, a *plan.Attributes) time.Duration {
	if descriptor == plan.AllDescriptors || of.scans == 0 {
		return of.all
	}
	if s.counted&(1<<bit) != 0 {
		return of.all - of.scans
	}
	s.counted |= 1 << bit
	if s.all == 0 {
		s.all = scansOf(a.Descriptors)
	}
	return of.all - of.scans + of.scans*time.Duration(s.all)
}

// scansOf returns how many scans of the largest size read all entries of the descriptors.
func scansOf(descriptors []plan.Descriptor) int64 {
	entries, keyBytes := 0, 0
	for _, d := range descriptors {
		entries += len(d)
		for i := range d {
			keyBytes += len(d[i].Key)
		}
	}
	return int64(1 + max(entries/expression.MaxScannedEntries, keyBytes/expression.MaxScannedKeyBytes))
}

// overBudget returns the policies for whose expressions no time is left, nil if none. The
// demands are in the order of the policies' IDs.
func overBudget(demands []demand) map[*policy]bool {
	var total time.Duration
	for i := range demands {
		total += demands[i].price
	}
	if total <= namespaceBudget {
		return nil
	}
	return dealBudgets(demands)
}

// claim holds the demands of one Namespace and the unused part of its budget.
type claim struct {
	unused, own time.Duration
	queue       []demand // not yet dealt with
}

// claimsOf divides the demands by Namespace.
func claimsOf(demands []demand) []claim {
	var claims []claim
	for i, queue := range byNamespace(demands, func(d *demand) (*policy, bool) { return d.policy, d.uncertain }) {
		c := claim{unused: namespaceBudget, queue: queue}
		if i < ownBudgets {
			c.own = ownBudget
		}
		claims = append(claims, c)
	}
	return claims
}

// dealBudgets deals out the budgets, to one policy of each Namespace in turn, and to the uncertain ones last. It
// returns the policies that get none.
func dealBudgets(demands []demand) map[*policy]bool {
	claims, common, without := claimsOf(demands), commonBudget, map[*policy]bool{}
	for _, uncertain := range []bool{false, true} {
		for dealt := true; dealt; {
			dealt = false
			for i := range claims {
				c := &claims[i]
				if len(c.queue) == 0 || c.queue[0].uncertain != uncertain {
					continue
				}
				dealt = true
				if !c.take(&common) {
					without[c.queue[0].policy] = true
				}
				c.queue = c.queue[1:]
			}
		}
	}
	return without
}

// take takes the price of the next policy from the claim and the common budget. It reports false if they have too
// little left.
func (c *claim) take(common *time.Duration) bool {
	price := c.queue[0].price
	fromOwn := min(c.own, price)
	fromCommon := price - fromOwn
	if price > c.unused || fromCommon > *common {
		return false
	}
	c.unused, c.own = c.unused-price, c.own-fromOwn
	*common -= fromCommon
	return true
}

// byNamespace divides a list, which is in the order of the policies' IDs. In each queue the items that belong last follow the
// others; of both kinds the policies with mode Enforce come first.
func byNamespace[T any](list []T, of func(*T) (p *policy, last bool)) (queues [][]T) {
	for len(list) > 0 {
		first, _ := of(&list[0])
		n := 1
		for ; n < len(list); n++ {
			if p, _ := of(&list[n]); p.plan.Namespace != first.plan.Namespace {
				break
			}
		}
		queue := slices.Clone(list[:n])
		slices.SortStableFunc(queue, func(a, b T) int { return cmp.Compare(rankOf(of(&a)), rankOf(of(&b))) })
		queues, list = append(queues, queue), list[n:]
	}
	return queues
}

func rankOf(p *policy, last bool) (rank int) {
	if last {
		rank = 2
	}
	if !p.enforces() {
		rank++
	}
	return rank
}
