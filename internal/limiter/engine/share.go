// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The shares of a decision in the time for expressions, in prices (see expression.Expression.Price). They
// depend neither on the clock nor on the load, so equal requests have equal decisions.
const (
	// namespaceShare is the largest share of one Namespace.
	namespaceShare = expression.MaxPrice
	// ownShare is what each of the first ownShares Namespaces has for itself, in the order of their
	// names. What they need beyond it comes from commonShare, in turn.
	ownShare    = 100 * time.Microsecond
	ownShares   = 8
	commonShare = 1700 * time.Microsecond
)

// demand is the price of the expressions that one policy needs for a check.
type demand struct {
	*policy
	price time.Duration
}

// demandsOfMatches returns what the policies of the matches need, in their order. It appends to demands.
func (v *view) demandsOfMatches(demands []demand, matches []plan.Found, a *plan.Attributes) []demand {
	const keys = plan.MaxMatches // the bit of the key and the overrides, beside the bits of the matches
	var s scans
	for i, m := range matches {
		p := v.policies[m.Plan]
		if !p.hasExpressions || m.LeftOut {
			continue
		}
		if n := len(demands); n == 0 || demands[n-1].policy != p {
			demands, s.counted = append(demands, demand{policy: p}), 0
		}
		d := &demands[len(demands)-1]
		d.price += s.priceOf(p.conditionPrice(m.Match), m.Match, m.Descriptor, a)
		if i == 0 || matches[i-1].Plan != m.Plan || matches[i-1].Descriptor != m.Descriptor {
			d.price += s.priceOf(p.price(), keys, m.Descriptor, a)
		}
	}
	return demands
}

// scans counts what the expressions of one policy need to search descriptors.
type scans struct {
	counted uint32 // bits of the expressions for one descriptor each whose scans count already
	all     int64  // scans that read all descriptors; 0 until an expression needs them
}

// priceOf returns the price of the expression with the bit for the descriptor.
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

// withoutShare returns the policies whose expressions have no share in the decision, nil if all have. The
// demands are in the order of the policies' IDs.
func withoutShare(demands []demand) map[*policy]bool {
	var total time.Duration
	for i := range demands {
		total += demands[i].price
	}
	if total <= namespaceShare {
		return nil
	}
	return dealShares(demands)
}

// dealShares deals out the shares, Namespace by Namespace in turn, of one Namespace to the policies with
// mode Enforce first.
func dealShares(demands []demand) map[*policy]bool {
	type share struct {
		unused, own time.Duration
		queue       []demand
	}
	var shares []share
	for len(demands) > 0 {
		n := lengthOfNamespace(demands, func(d demand) *policy { return d.policy })
		s := share{unused: namespaceShare, queue: slices.Clone(demands[:n])}
		if len(shares) < ownShares {
			s.own = ownShare
		}
		slices.SortStableFunc(s.queue, func(a, b demand) int { return compareBools(!a.enforces(), !b.enforces()) })
		shares, demands = append(shares, s), demands[n:]
	}
	common, without := commonShare, map[*policy]bool{}
	for dealt := true; dealt; {
		dealt = false
		for i := range shares {
			s := &shares[i]
			if len(s.queue) == 0 {
				continue
			}
			dealt = true
			next := s.queue[0]
			s.queue = s.queue[1:]
			fromOwn := min(s.own, next.price)
			if next.price > s.unused || next.price-fromOwn > common {
				without[next.policy] = true
				continue
			}
			s.unused, s.own, common = s.unused-next.price, s.own-fromOwn, common-(next.price-fromOwn)
		}
	}
	return without
}

// lengthOfNamespace returns how many items at the beginning of the list, which is in the order of the
// policies' IDs, have the Namespace of the first one.
func lengthOfNamespace[T any](list []T, policyOf func(T) *policy) int {
	namespace := policyOf(list[0]).plan.Namespace
	n := slices.IndexFunc(list, func(item T) bool { return policyOf(item).plan.Namespace != namespace })
	if n < 0 {
		return len(list)
	}
	return n
}

// compareBools compares two booleans; false is less.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
