// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Envoy Gateway makes a route of Envoy for each host, rule and match of a route, behind each listener, and each of them has
// its own counters. A policy of several of them has the host and the match in its key.

// cellKey returns the parts of the key that distinguish the routes of Envoy for the rules behind the listeners.
func (r *route) cellKey(rules []int, listeners []attachment) (parts []v1alpha1.KeyPart, err error) {
	for i, a := range listeners {
		for _, b := range listeners[:i] {
			if (a.namespace != b.namespace || a.gateway != b.gateway || a.port != b.port) && a.overlaps(b) {
				return nil, fmt.Errorf("%s and %s accept the same hosts, and Envoy Gateway counts for each of them: name one of them by sectionName in parentRefs", b.id(), a.id())
			}
		}
	}
	for _, cel := range []string{hostLabels(listeners), matchLabels(r.orderedMatches(), rules)} {
		if cel != "" {
			parts = append(parts, v1alpha1.KeyPart{Type: v1alpha1.KeyPartExpression, Expression: &v1alpha1.ExpressionKey{CEL: cel}})
		}
	}
	return parts, nil
}

func (a attachment) id() string {
	return "listener " + a.listener + " of Gateway " + a.namespace + "/" + a.gateway
}

// overlaps reports whether a host may belong to both.
func (a attachment) overlaps(other attachment) bool {
	if len(a.hosts) == 0 || len(other.hosts) == 0 {
		return true
	}
	return slices.ContainsFunc(a.hosts, func(host string) bool {
		return slices.ContainsFunc(other.hosts, func(o string) bool { return includesHost(host, o) || includesHost(o, host) })
	})
}

// hostLabels returns an expression for the host of the route that a request has, "" if there is only one: the most specific.
func hostLabels(listeners []attachment) string {
	var exact, wildcards []string
	for _, a := range listeners {
		hosts := a.hosts
		if len(hosts) == 0 {
			hosts = []string{"*"}
		}
		for _, host := range hosts {
			if strings.HasPrefix(host, "*") {
				wildcards = append(wildcards, host)
			} else {
				exact = append(exact, strconv.Quote(host))
			}
		}
	}
	slices.SortFunc(wildcards, func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) })
	exact, wildcards = sortedSet(exact), slices.Compact(wildcards)
	switch n := len(wildcards); {
	case len(exact)+n < 2:
		return ""
	case n == 0:
		return "request.host"
	}
	text := strconv.Quote(wildcards[len(wildcards)-1])
	for _, host := range slices.Backward(wildcards[:len(wildcards)-1]) {
		text = "request.host.endsWith(" + strconv.Quote(host[1:]) + ") ? " + strconv.Quote(host) + " : " + text
	}
	if len(exact) > 0 {
		text = "request.host in [" + strings.Join(exact, ", ") + "] ? request.host : " + text
	}
	return text
}

// orderedMatch is a match of a rule of a route.
type orderedMatch struct {
	*routeMatch

	rule  int
	label string // in keys
}

// orderedMatches returns the matches of all rules: of several that a request fits, the first takes it.
func (r *route) orderedMatches() (all []orderedMatch) {
	for rule := range r.Spec.Rules {
		matches := r.Spec.Rules[rule].Matches
		if len(matches) == 0 {
			matches = []routeMatch{{}}
		}
		for i := range matches {
			label := r.ruleName(rule)
			if len(matches) > 1 {
				label += fmt.Sprintf(".%d", i+1)
			}
			all = append(all, orderedMatch{&matches[i], rule, label})
		}
	}
	slices.SortStableFunc(all, func(a, b orderedMatch) int { return slices.Compare(b.rank(), a.rank()) })
	return all
}

// rank returns numbers by which Envoy Gateway orders matches, from the first that differs on: the larger is first.
func (m *routeMatch) rank() []int {
	path := m.path()
	length := len(path.Value)
	if path.Value == "/" && path.Type == "PathPrefix" {
		length = 0
	}
	kind := slices.Index([]string{"PathPrefix", "RegularExpression", "Exact"}, path.Type)
	headers := len(m.Headers)
	exact := func(values []routeValue) (n int) {
		for _, v := range values {
			if v.Type != "RegularExpression" {
				n++
			}
		}
		return n
	}
	exactHeaders := exact(m.Headers)
	switch {
	case m.Method.HTTP != "":
		headers, exactHeaders = headers+1, exactHeaders+1
	case m.Method.Method != "" && m.Method.Service == "" && m.Method.Type != "RegularExpression":
		kind, length, headers = 0, 0, headers+1 // Envoy Gateway compares the end of the path as a header
	}
	return []int{kind, length, headers, exactHeaders, len(m.QueryParams), exact(m.QueryParams)}
}

// cel returns the condition that a request fits the match, "" if every request does.
func (m *routeMatch) cel() string {
	var all []string
	path := m.path()
	quoted, prefix := strconv.Quote(path.Value), strings.TrimSuffix(path.Value, "/")
	switch {
	case path.Type == "Exact":
		all = append(all, "request.path == "+quoted)
	case path.Type == "RegularExpression":
		all = append(all, matching("request.path", path.Value))
	case prefix != "":
		all = append(all, "(request.path == "+strconv.Quote(prefix)+" || request.path.startsWith("+strconv.Quote(prefix+"/")+"))")
	}
	if m.Method.HTTP != "" {
		all = append(all, "request.method == "+strconv.Quote(m.Method.HTTP))
	}
	value := func(text string, v routeValue) {
		if v.Type == "RegularExpression" {
			all = append(all, matching(text, v.Value))
		} else {
			all = append(all, text+" == "+strconv.Quote(v.Value))
		}
	}
	for _, h := range m.Headers {
		value("request.headers["+strconv.Quote(strings.ToLower(h.Name))+"]", h)
	}
	for _, q := range m.QueryParams {
		value("request.query["+strconv.Quote(q.Name)+"]", q)
	}
	return allOf(all)
}

// matchLabels returns an expression for the match of the rules that takes a request of the rules, "" if there is only one.
func matchLabels(matches []orderedMatch, rules []int) string {
	matches = slices.DeleteFunc(slices.Clone(matches), func(m orderedMatch) bool { return !slices.Contains(rules, m.rule) })
	if len(matches) < 2 {
		return ""
	}
	return firstOf(matches, func(m orderedMatch) string { return strconv.Quote(m.label) })
}

// takenBy returns the condition that one of the rules takes the request.
func takenBy(matches []orderedMatch, rules []int) string {
	return firstOf(matches, func(m orderedMatch) string { return strconv.FormatBool(slices.Contains(rules, m.rule)) })
}

// firstOf returns an expression for the value of the first match that a request fits. A request of the route fits one.
func firstOf(matches []orderedMatch, value func(orderedMatch) string) string {
	text := value(matches[len(matches)-1])
	for _, m := range slices.Backward(matches[:len(matches)-1]) {
		if own := value(m); own != text {
			text = cmp.Or(m.cel(), "true") + " ? " + own + " : " + text
		}
	}
	return text
}
