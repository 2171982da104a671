// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"math/bits"
	"net/netip"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// unusedOverrides warns of overrides that never apply, because an earlier one selects
// all their callers: each selector of the earlier one is at least as strict in the later one. Expressions are compared as
// text.
func unusedOverrides(p *plan.Plan) (warnings []string) {
	var keys, groups, whens selectors[string]
	var networks selectors[netip.Prefix]
	for j := range p.Overrides {
		o := &p.Overrides[j]
		var when []string
		if o.When != "" {
			when = []string{o.When}
		}
		selected := p.KeysOf(o)
		earlier := keys.covering(selected, keys.with) & groups.covering(o.Groups, groups.with) & whens.covering(when, whens.with) &
			networks.covering(o.CIDRs, func(n netip.Prefix) overrideSet { return containing(&networks, n) })
		if first := bits.TrailingZeros64(uint64(earlier)); earlier != 0 {
			warnings = append(warnings, fmt.Sprintf("%s (%s) is unused: %s (%s) comes first and selects all its callers",
				at("overrides", j), o.Name, at("overrides", first), p.Overrides[first].Name))
		}
		keys.add(j, selected)
		groups.add(j, o.Groups)
		whens.add(j, when)
		networks.add(j, o.CIDRs)
	}
	return warnings
}

// overrideSet has a bit for each override of a policy.
type overrideSet uint64

const _ = uint(64 - plan.MaxOverrides) // a set has room for all

// selectors has the overrides that have selectors of one kind. So each value is looked up once, and not compared with the values of
// each other override. The zero value is empty.
type selectors[T comparable] struct {
	without overrideSet // overrides without such a selector, which select all callers
	byValue map[T]overrideSet
}

// add adds the selectors of the override with the index.
func (s *selectors[T]) add(override int, values []T) {
	if len(values) == 0 {
		s.without |= 1 << override
		return
	}
	if s.byValue == nil {
		s.byValue = map[T]overrideSet{}
	}
	for _, v := range values {
		s.byValue[v] |= 1 << override
	}
}

func (s *selectors[T]) with(value T) overrideSet { return s.byValue[value] }

// covering returns the overrides that select all callers that the values select. with returns those that select the callers of one.
func (s *selectors[T]) covering(values []T, with func(T) overrideSet) overrideSet {
	if len(values) == 0 {
		return s.without
	}
	all := ^overrideSet(0)
	for _, v := range values {
		all &= with(v)
	}
	return s.without | all
}

// containing returns the overrides with a network that contains the whole network n.
func containing(networks *selectors[netip.Prefix], n netip.Prefix) (found overrideSet) {
	for length := range n.Bits() + 1 {
		found |= networks.byValue[netip.PrefixFrom(n.Addr(), length).Masked()]
	}
	return found
}
