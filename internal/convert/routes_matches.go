// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// spot is a rule behind a listener, by their indexes in the route and its attachments.
type spot struct{ rule, attachment int }

// sidesOf returns the indexes of the rules and of the listeners.
func sidesOf(spots []spot) (rules, listeners []int) {
	for _, spot := range spots {
		rules, listeners = append(rules, spot.rule), append(listeners, spot.attachment)
	}
	return sortedSet(rules), sortedSet(listeners)
}

// hostsBehind returns the hosts of the route behind the listeners, none for every host, and conditions that exclude the
// hosts of its other listeners, which take precedence if they are more specific. With all listeners there are no hosts, because
// the route alone selects the requests, unless always is true.
func hostsBehind(attachments []attachment, listeners []int, always bool) (hosts, exclusions []string, err error) {
	var own, others []attachment
	for i, a := range attachments {
		if slices.Contains(listeners, i) {
			own = append(own, a)
		} else {
			others = append(others, a)
		}
	}
	hosts = hostsOf(own)
	for _, other := range others {
		if slices.ContainsFunc(own, func(a attachment) bool { return a.sharesHost(other) }) {
			return nil, nil, fmt.Errorf("the limit applies to some listeners of Gateway %s/%s, and another one accepts the same hosts", other.namespace, other.gateway)
		}
		for _, h := range other.hosts {
			if len(hosts) == 0 || slices.ContainsFunc(hosts, func(own string) bool { return includesHost(own, h) }) {
				exclusions = append(exclusions, exclusion(h))
			}
		}
	}
	if len(others) == 0 && !always {
		hosts = nil
	}
	return hosts, sortedSet(exclusions), nil
}

// hostsOf returns the hosts of all attachments, none if one has every host.
func hostsOf(attachments []attachment) (hosts []string) {
	for _, a := range attachments {
		if len(a.hosts) == 0 {
			return nil
		}
		hosts = append(hosts, a.hosts...)
	}
	return sortedSet(hosts)
}

// sharesHost reports whether both have the same host, or both every host.
func (a attachment) sharesHost(other attachment) bool {
	if len(a.hosts) == 0 || len(other.hosts) == 0 {
		return len(a.hosts) == len(other.hosts)
	}
	return slices.ContainsFunc(a.hosts, func(h string) bool { return slices.Contains(other.hosts, h) })
}

// exclusion returns the condition that the host is another one.
func exclusion(host string) string {
	if suffix, isWildcard := strings.CutPrefix(host, "*"); isWildcard {
		return "!request.host.endsWith(" + strconv.Quote(suffix) + ")"
	}
	return "request.host != " + strconv.Quote(host)
}

func targetRef(kind, name string) gatewayv1.LocalPolicyTargetReferenceWithSectionName {
	return gatewayv1.LocalPolicyTargetReferenceWithSectionName{LocalPolicyTargetReference: gatewayv1.LocalPolicyTargetReference{
		Group: gatewayv1.GroupName, Kind: gatewayv1.Kind(kind), Name: gatewayv1.ObjectName(name),
	}}
}

// targetRefs returns references to the rules. It reports true if these are not all rules of the route and one has no name:
// matches must then select them.
func (r *route) targetRefs(rules []int) (refs []gatewayv1.LocalPolicyTargetReferenceWithSectionName, needsMatches bool) {
	whole := targetRef(r.Kind, r.Name)
	if len(rules) == len(r.Spec.Rules) {
		return []gatewayv1.LocalPolicyTargetReferenceWithSectionName{whole}, false
	}
	for _, rule := range rules {
		name := r.Spec.Rules[rule].Name
		if name == "" {
			return []gatewayv1.LocalPolicyTargetReferenceWithSectionName{whole}, true
		}
		ref := whole
		ref.SectionName = new(gatewayv1.SectionName(name))
		refs = append(refs, ref)
	}
	return refs, false
}

// matches returns a match for each match of the rules.
func (r *route) matches(rules []int, hosts, conditions []string) (matches []v1alpha1.Match) {
	for _, rule := range rules {
		from := r.Spec.Rules[rule].Matches
		if len(from) == 0 {
			from = []routeMatch{{}}
		}
		for i := range from {
			m := matchOf(&from[i], conditions)
			m.Hosts = hosts
			if !slices.ContainsFunc(matches, func(other v1alpha1.Match) bool { return keyOfMatch(other) == keyOfMatch(m) }) {
				matches = append(matches, m)
			}
		}
	}
	return matches
}

func keyOfMatch(m v1alpha1.Match) string {
	return fmt.Sprint(m.Methods, m.Paths, m.Headers, m.QueryParameters, m.When)
}

// path returns the condition on the path: by default every path.
func (m *routeMatch) path() routeValue {
	path := routeValue{Type: "PathPrefix", Value: "/"}
	if given := cmp.Or(m.Path, m.Method.path()); given != nil {
		path.Value = given.Value
		path.Type = cmp.Or(given.Type, path.Type)
	}
	return path
}

// matchOf converts one match of a rule, without hosts.
func matchOf(from *routeMatch, always []string) (m v1alpha1.Match) {
	var conditions []string
	if from.Method.HTTP != "" {
		m.Methods = []string{from.Method.HTTP}
	}
	path := from.path()
	switch prefix := strings.TrimSuffix(path.Value, "/"); {
	case path.Type == "Exact":
		m.Paths = []string{path.Value}
	case path.Type == "RegularExpression":
		conditions = append(conditions, matching("request.path", path.Value))
	case prefix == "":
		m.Paths = []string{"/*"}
	default:
		m.Paths = []string{prefix, prefix + "/*"}
	}
	for _, h := range from.Headers {
		value := "request.headers[" + strconv.Quote(strings.ToLower(h.Name)) + "]"
		if h.Type == "RegularExpression" {
			conditions = append(conditions, matching(value, h.Value))
		} else {
			m.Headers = append(m.Headers, v1alpha1.HeaderMatch{Name: h.Name, Type: v1alpha1.ValueMatchExact, Value: h.Value})
		}
	}
	for _, q := range from.QueryParams {
		if q.Type == "RegularExpression" {
			conditions = append(conditions, matching("request.query["+strconv.Quote(q.Name)+"]", q.Value))
		} else {
			m.QueryParameters = append(m.QueryParameters, v1alpha1.QueryParameterMatch{Name: q.Name, Type: v1alpha1.ValueMatchExact, Value: q.Value})
		}
	}
	m.When = allOf(append(conditions, always...))
	return m
}

// matching returns the condition that the whole value fits the pattern.
func matching(value, pattern string) string {
	return value + ".matches(" + strconv.Quote("^(?:"+pattern+")$") + ")"
}
