// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
)

// The bounds of the policies that match a check, of one Namespace and of all, and of their limits. A
// policy counts once for each of its keys. Those beyond are decided by their failureMode.
const (
	MaxNamespacePolicies = 16
	// MaxNamespaceMatches is the largest number of matches that are found for a request, once for each
	// descriptor, of the policies of one Namespace and mode, in the order of their names.
	MaxNamespaceMatches = 4096
	MaxNamespaceLimits  = 64
	MaxMatchedPolicies  = 128
	MaxMatchedLimits    = 512
)

// MaxDescriptors is the largest number of descriptors of a request.
const MaxDescriptors = 64

// Match is one set of conditions under which the plan applies to a request. All fields that
// are set must hold.
type Match struct {
	// Targets are Gateways and routes, one of which the request must have come through.
	Targets []Target `json:"targets,omitempty"`
	Hosts   []string `json:"hosts,omitempty"`   // exact, or "*." and a parent domain
	Methods []string `json:"methods,omitempty"` // exact
	Paths   []string `json:"paths,omitempty"`   // exact, or a prefix and "*"
	// Headers and QueryParameters are values that the request must have, all of them. Names of headers are in lower
	// case. An empty value matches any value.
	Headers         []Entry `json:"headers,omitempty"`
	QueryParameters []Entry `json:"queryParameters,omitempty"`
	Domain          string  `json:"domain,omitempty"` // exact
	// Descriptors are entries that one descriptor of the request must contain, all of them. With ForbidsOtherEntries
	// it must contain no further entry.
	Descriptors         []EntryMatch `json:"descriptors,omitempty"`
	ForbidsOtherEntries bool         `json:"forbidsOtherEntries,omitempty"`
	// When is an expression that must yield true. The engine evaluates it.
	When string `json:"when,omitempty"`
}

// Entry is one entry of a descriptor of a request, or a header or query parameter that a match wants.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
}

// Descriptor is one descriptor of a request, as proxies such as Envoy send them.
type Descriptor []Entry

// AllDescriptors as an index stands for all descriptors of a request.
const AllDescriptors = -1

// Found is a match that holds for a request, except that its expression is not evaluated. Matches after
// one that certainly holds, of the same plan for the same descriptor, are left out.
type Found struct {
	Plan *Plan
	// Match is the index in Plan.Matches.
	Match int
	// Descriptor is the index of the descriptor with all entries of the match, or
	// AllDescriptors if the match has none.
	Descriptor int
	// Uncertain is true if the match holds only because values of the request are unreadable, see Values. A client
	// can cause it.
	Uncertain bool
	// LeftOut is true if the plan has no room among the matches of its Namespace, see
	// MaxNamespaceMatches. No other match of the plan is found.
	LeftOut bool
}

// Field is a field of a Match, as its name in JSON.
type Field string

// The fields of a Match. NoField stands for none.
const (
	NoField              Field = ""
	FieldTargets         Field = "targets"
	FieldHosts           Field = "hosts"
	FieldMethods         Field = "methods"
	FieldPaths           Field = "paths"
	FieldHeaders         Field = "headers"
	FieldQueryParameters Field = "queryParameters"
	FieldDomain          Field = "domain"
	FieldDescriptors     Field = "descriptors"
	FieldWhen            Field = "when"
)

// Holds reports whether all fields but descriptors and expression hold.
func (m *Match) Holds(a *Attributes) bool { return m.Mismatch(a, NoField) == NoField }

// Mismatch returns the first field other than the ignored one that does not hold, of all but
// descriptors and expression.
func (m *Match) Mismatch(a *Attributes, ignored Field) Field {
	switch {
	case ignored != FieldTargets && !m.HoldsTargets(a):
		return FieldTargets
	case ignored != FieldDomain && !m.HoldsDomain(a):
		return FieldDomain
	case ignored != FieldMethods && !m.holdsMethods(a):
		return FieldMethods
	case ignored != FieldHosts && !m.HoldsHosts(a):
		return FieldHosts
	case ignored != FieldPaths && !m.holdsPaths(a):
		return FieldPaths
	}
	return m.mismatchedValues(a, ignored)
}

// mismatchedValues is mismatch for headers and query parameters.
func (m *Match) mismatchedValues(a *Attributes, ignored Field) Field {
	switch {
	case ignored != FieldHeaders && !m.holdsHeaders(a):
		return FieldHeaders
	case ignored != FieldQueryParameters && !m.holdsQueryParameters(a):
		return FieldQueryParameters
	}
	return NoField
}

func (m *Match) holdsHeaders(a *Attributes) bool {
	holds, _ := a.holdsHeaders(m.Headers)
	return holds
}

func (m *Match) holdsQueryParameters(a *Attributes) bool {
	if len(m.QueryParameters) == 0 {
		return true
	}
	holds, _ := a.QueryValues().holds(m.QueryParameters)
	return holds
}

// IsUncertain reports whether the match, which holds, does so only because values are unreadable.
func (m *Match) IsUncertain(a *Attributes) (uncertain bool) {
	if len(m.QueryParameters) > 0 {
		_, uncertain = a.QueryValues().holds(m.QueryParameters)
	}
	if !uncertain {
		_, uncertain = a.holdsHeaders(m.Headers)
	}
	return uncertain
}

// readsValues reports whether the match reads headers or query parameters.
func (m *Match) readsValues() bool { return len(m.Headers)+len(m.QueryParameters) > 0 }

// HoldsDomain reports whether the match holds in the domain of the request.
func (m *Match) HoldsDomain(a *Attributes) bool { return m.Domain == "" || m.Domain == a.Domain }

func (m *Match) holdsMethods(a *Attributes) bool {
	return len(m.Methods) == 0 || slices.Contains(m.Methods, a.Method)
}

// HoldsHosts reports whether the match holds for the host of the request.
func (m *Match) HoldsHosts(a *Attributes) bool {
	return len(m.Hosts) == 0 || slices.ContainsFunc(m.Hosts, func(pattern string) bool { return MatchesHost(pattern, a.Host) })
}

func (m *Match) holdsPaths(a *Attributes) bool {
	return len(m.Paths) == 0 || slices.ContainsFunc(m.Paths, func(pattern string) bool { return MatchesPath(pattern, a.Path) })
}

// MatchesHost reports whether the pattern matches the host. "*.b.c" matches "a.b.c" and
// "z.a.b.c", but not "b.c" itself.
func MatchesHost(pattern, host string) bool {
	suffix, wildcard := strings.CutPrefix(pattern, "*")
	if !wildcard {
		return pattern == host
	}
	return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
}

// MatchesPath reports whether the pattern of a match selects the path.
func MatchesPath(pattern, path string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	if !open {
		return pattern == path
	}
	return strings.HasPrefix(path, prefix)
}

// DependsOnDescriptors reports whether the policy can apply because of one descriptor of a
// request, which may then request a limit.
func (p *Plan) DependsOnDescriptors() bool {
	return slices.ContainsFunc(p.Matches, func(m Match) bool { return len(m.Descriptors) > 0 })
}

func (p *Plan) validateMatches(fail func(string, ...any)) {
	if len(p.Matches) > MaxMatches {
		fail("%d matches, at most %d", len(p.Matches), MaxMatches)
	}
	for i := range p.Matches {
		p.Matches[i].validate(fail, fmt.Sprintf("matches[%d]", i))
	}
}

func (m *Match) validate(fail func(string, ...any), at string) {
	if len(m.Targets)+len(m.Hosts)+len(m.Methods)+len(m.Paths)+len(m.Descriptors) == 0 && !m.readsValues() && m.Domain == "" && m.When == "" {
		fail("%s is empty", at)
	}
	if len(m.Hosts) > MaxPatterns || len(m.Paths) > MaxPatterns || len(m.Methods) > MaxMethods || len(m.Descriptors) > MaxEntries {
		fail("%s has %d hosts, %d paths, %d methods and %d descriptors, at most %d, %d, %d and %d", at,
			len(m.Hosts), len(m.Paths), len(m.Methods), len(m.Descriptors), MaxPatterns, MaxPatterns, MaxMethods, MaxEntries)
	}
	m.validateTargets(fail, at)
	m.validateTexts(fail, at)
	m.validateDescriptors(fail, at)
	validateValues(fail, at+".headers", m.Headers)
	validateValues(fail, at+".queryParameters", m.QueryParameters)
}

func validateValues(fail func(string, ...any), at string, wanted []Entry) {
	if len(wanted) > MaxEntries {
		fail("%s has %d entries, at most %d", at, len(wanted), MaxEntries)
	}
	for i, e := range wanted {
		if e.Key == "" || longerThan(e.Key, MaxText) || longerThan(e.Value, MaxValue) {
			fail("%s[%d] must have a name of 1 to %d characters and a value of at most %d", at, i, MaxText, MaxValue)
		}
	}
}

func (m *Match) validateTexts(fail func(string, ...any), at string) {
	if longerThan(m.Domain, MaxText) {
		fail("%s.domain is longer than %d characters", at, MaxText)
	}
	if longerThan(m.When, MaxExpression) {
		fail("%s.when is longer than %d characters", at, MaxExpression)
	}
}
