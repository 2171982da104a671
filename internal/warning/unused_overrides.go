// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// unusedOverrides warns of overrides that never apply, because an earlier one selects
// all their callers.
func unusedOverrides(p *plan.Plan) (warnings []string) {
	for j := range p.Overrides {
		earlier := slices.IndexFunc(p.Overrides[:j], func(o plan.Override) bool { return selectsAll(&o, &p.Overrides[j]) })
		if earlier >= 0 {
			warnings = append(warnings, fmt.Sprintf("%s (%s) is unused: %s (%s) comes first and selects all its callers",
				at("overrides", j), p.Overrides[j].Name, at("overrides", earlier), p.Overrides[earlier].Name))
		}
	}
	return warnings
}

// selectsAll reports whether a provably selects every caller that b selects: each
// selector of a is at least as strict in b. Expressions are compared as text.
func selectsAll(a, b *plan.Override) bool {
	keys := len(a.Keys) == 0 ||
		len(b.Keys) > 0 && !slices.ContainsFunc(b.Keys, func(key string) bool { return !slices.Contains(a.Keys, key) })
	groups := len(a.Groups) == 0 ||
		len(b.Groups) > 0 && !slices.ContainsFunc(b.Groups, func(group string) bool { return !slices.Contains(a.Groups, group) })
	networks := len(a.CIDRs) == 0 ||
		len(b.CIDRs) > 0 && !slices.ContainsFunc(b.CIDRs, func(n netip.Prefix) bool { return !contains(n, a.CIDRs) })
	return keys && groups && networks && (a.When == "" || a.When == b.When)
}

// contains reports whether one of the networks contains the whole network n.
func contains(n netip.Prefix, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(other netip.Prefix) bool {
		return other.Bits() <= n.Bits() && other.Contains(n.Addr())
	})
}
