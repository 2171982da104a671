// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
)

// index finds plans by request facts. Matches are filed under the hosts they
// name and there under their paths, so a decision looks only at those that
// hold for its host and path, however many there are for others.
type index struct {
	exact    map[string]*paths // by host
	wildcard map[string]*paths // by what follows "*", starting with a dot
	any      paths             // matches that name no host
}

// paths are the matches for one host, filed under their paths.
type paths struct {
	exact    map[string][]filed // by path
	prefixes map[string][]filed // by what precedes "*"
	lengths  []int              // of the prefixes, each once
	any      []filed            // matches that name no path
}

// filed is one match of one plan; rank is the plan's place in the order of
// IDs, in which the plans of a decision are returned.
type filed struct {
	rank  int
	plan  *Plan
	match *Match
}

func newIndex(plans []*Plan) index {
	x := index{exact: map[string]*paths{}, wildcard: map[string]*paths{}}
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
		x.any.file(f)
	}
	for _, host := range f.match.Hosts {
		byHost, key := x.exact, host
		if suffix, ok := strings.CutPrefix(host, "*"); ok {
			byHost, key = x.wildcard, suffix
		}
		if byHost[key] == nil {
			byHost[key] = &paths{}
		}
		byHost[key].file(f)
	}
}

func (p *paths) file(f filed) {
	if p.exact == nil {
		p.exact, p.prefixes = map[string][]filed{}, map[string][]filed{}
	}
	if len(f.match.Paths) == 0 {
		p.any = append(p.any, f)
	}
	for _, path := range f.match.Paths {
		prefix, ok := strings.CutSuffix(path, "*")
		if !ok {
			p.exact[path] = append(p.exact[path], f)
			continue
		}
		p.prefixes[prefix] = append(p.prefixes[prefix], f)
		if !slices.Contains(p.lengths, len(prefix)) {
			p.lengths = append(p.lengths, len(prefix))
		}
	}
}

func (x *index) match(a *Attributes) []*Plan {
	found := x.any.match(nil, a)
	if a.Host != "" {
		found = x.exact[a.Host].match(found, a)
		// "*.b.c" covers "a.b.c" and "z.a.b.c", but not "b.c" itself.
		for rest := a.Host; len(x.wildcard) > 0; {
			i := strings.IndexByte(rest[1:], '.')
			if i < 0 {
				break
			}
			rest = rest[1+i:]
			found = x.wildcard[rest].match(found, a)
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

// match appends the matches that hold for a request to this host.
func (p *paths) match(found []filed, a *Attributes) []filed {
	if p == nil {
		return found
	}
	collect := func(candidates []filed) {
		for _, f := range candidates {
			if len(f.match.Methods) == 0 || slices.Contains(f.match.Methods, a.Method) {
				found = append(found, f)
			}
		}
	}
	collect(p.any)
	if a.Path == "" {
		return found
	}
	collect(p.exact[a.Path])
	for _, length := range p.lengths {
		if length <= len(a.Path) {
			collect(p.prefixes[a.Path[:length]])
		}
	}
	return found
}
