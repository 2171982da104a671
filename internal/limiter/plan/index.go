// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
)

// index finds plans by request facts. Matches are filed under the hosts they
// name, so a decision looks only at those that could hold for its host.
type index struct {
	exact    map[string][]filed // by host
	wildcard map[string][]filed // by what follows "*", starting with a dot
	any      []filed            // matches that name no host
}

// filed is one match of one plan; rank is the plan's place in the order of
// IDs, in which the plans of a decision are returned.
type filed struct {
	rank  int
	plan  *Plan
	match *Match
}

func newIndex(plans []*Plan) index {
	x := index{exact: map[string][]filed{}, wildcard: map[string][]filed{}}
	for rank, p := range plans {
		if p.Mode == ModeDisabled {
			continue
		}
		for i := range p.Matches {
			x.file(filed{rank: rank, plan: p, match: &p.Matches[i]})
		}
	}
	return x
}

func (x *index) file(f filed) {
	if len(f.match.Hosts) == 0 {
		x.any = append(x.any, f)
	}
	for _, host := range f.match.Hosts {
		if suffix, ok := strings.CutPrefix(host, "*"); ok {
			x.wildcard[suffix] = append(x.wildcard[suffix], f)
		} else {
			x.exact[host] = append(x.exact[host], f)
		}
	}
}

func (x *index) match(a *Attributes) []*Plan {
	var found []filed
	collect := func(candidates []filed) {
		for _, f := range candidates {
			if f.match.holds(a) {
				found = append(found, f)
			}
		}
	}
	collect(x.any)
	if a.Host != "" {
		collect(x.exact[a.Host])
		// "*.b.c" covers "a.b.c" and "z.a.b.c", but not "b.c" itself.
		for rest := a.Host; len(x.wildcard) > 0; {
			i := strings.IndexByte(rest[1:], '.')
			if i < 0 {
				break
			}
			rest = rest[1+i:]
			collect(x.wildcard[rest])
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, func(a, b filed) int { return a.rank - b.rank })
	plans := make([]*Plan, 0, len(found))
	for _, f := range found {
		if n := len(plans); n == 0 || plans[n-1] != f.plan {
			plans = append(plans, f.plan)
		}
	}
	return plans
}

// holds reports whether the lists other than hosts hold.
func (m *Match) holds(a *Attributes) bool {
	if len(m.Methods) > 0 && !slices.Contains(m.Methods, a.Method) {
		return false
	}
	return len(m.Paths) == 0 || slices.ContainsFunc(m.Paths, func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(a.Path, prefix)
		}
		return a.Path == pattern
	})
}
