// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// clients are the clients that a rule selects, and the counters that they have.
type clients struct {
	conditions []condition
	network    *network // nil for all
	key        []v1alpha1.KeyPart
}

// condition is an expression over the request.
type condition struct {
	cel string
	// set sets fields of a match to the same condition; nil if only an expression has it.
	set func(m *v1alpha1.Match)
}

// network is the clients of sourceCIDR.
type network struct {
	prefix   netip.Prefix
	distinct bool // each address has its own counter
	inverted bool
}

// cel returns the expression for all conditions besides the network.
func (c *clients) cel() string {
	var all []string
	for _, condition := range c.conditions {
		all = append(all, condition.cel)
	}
	return allOf(all)
}

// match returns the match for all conditions besides the network, and for further expressions.
func (c *clients) match(further []string) (m v1alpha1.Match) {
	all := slices.Clone(further)
	for _, condition := range c.conditions {
		if condition.set == nil {
			all = append(all, condition.cel)
		} else {
			condition.set(&m)
		}
	}
	m.When = allOf(all)
	return m
}

// clientsOf returns the clients of the rule. Envoy Gateway joins its selectors: all their headers and parameters must match,
// one of all methods, and the last path and the last sourceCIDR. Problems have a field within the rule.
func clientsOf(rule *trafficRule) (found *clients, problems []fieldProblem) {
	found = &clients{}
	add := func(field string, c *condition, err error) {
		if err != nil {
			problems = append(problems, fieldProblem{field, err.Error()})
		} else if c != nil {
			found.conditions = append(found.conditions, *c)
		}
	}
	var methods []methodSelector
	var path, cidr *valueSelector
	var pathField string
	for i, s := range rule.ClientSelectors {
		at := fmt.Sprintf("clientSelectors[%d].", i)
		for j := range s.Headers {
			c, err := found.header(&s.Headers[j])
			add(fmt.Sprintf("%sheaders[%d]", at, j), c, err)
		}
		methods = append(methods, s.Methods...)
		if s.Path != nil {
			path, pathField = s.Path, at+"path"
		}
		if s.SourceCIDR != nil {
			cidr = s.SourceCIDR
		}
	}
	c, err := methodCondition(methods)
	add("clientSelectors", c, err)
	if path != nil {
		c, err := pathCondition(path)
		add(pathField, c, err)
	}
	if cidr != nil {
		found.addSource(cidr)
	}
	for _, s := range rule.ClientSelectors {
		for i := range s.QueryParams {
			found.conditions = append(found.conditions, *found.parameter(&s.QueryParams[i]))
		}
	}
	return found, problems
}

// header returns the condition on the header. One of the type Distinct also is a part of the key.
func (c *clients) header(h *valueSelector) (*condition, error) {
	name := strings.ToLower(h.Name)
	isPresent := strconv.Quote(name) + " in request.headers"
	if strings.HasPrefix(name, ":") || name == "host" {
		return nil, fmt.Errorf("%s is not a header for Weir: select by methods, by path, or by the hostnames of a route", h.Name)
	}
	if h.Type == "Distinct" {
		c.key = append(c.key, v1alpha1.KeyPart{Type: v1alpha1.KeyPartHeader, Header: &v1alpha1.HeaderKey{Name: h.Name}})
		return &condition{isPresent, func(m *v1alpha1.Match) {
			m.Headers = append(m.Headers, v1alpha1.HeaderMatch{Name: h.Name, Type: v1alpha1.ValueMatchPresent})
		}}, nil
	}
	return valueCondition("request.headers", name, h), nil
}

// parameter returns the condition on the query parameter. One of the type Distinct also is a part of the key.
func (c *clients) parameter(q *valueSelector) *condition {
	isPresent := strconv.Quote(q.Name) + " in request.query"
	if q.Type == "Distinct" {
		c.key = append(c.key, v1alpha1.KeyPart{Type: v1alpha1.KeyPartQueryParameter, QueryParameter: &v1alpha1.QueryParameterKey{Name: q.Name}})
		return &condition{isPresent, func(m *v1alpha1.Match) {
			m.QueryParameters = append(m.QueryParameters, v1alpha1.QueryParameterMatch{Name: q.Name, Type: v1alpha1.ValueMatchPresent})
		}}
	}
	return valueCondition("request.query", q.Name, q)
}

// valueCondition returns the condition on the value with the name, which must be present. An absent one reads as "".
func valueCondition(values, name string, s *valueSelector) *condition {
	value := values + "[" + strconv.Quote(name) + "]"
	text, isOfEmpty := value+" == "+strconv.Quote(*s.Value), *s.Value == ""
	if s.Type == "RegularExpression" {
		text, isOfEmpty = matching(value, *s.Value), regexp.MustCompile("^(?:"+*s.Value+")$").MatchString("")
	}
	if isOfEmpty {
		text = "(" + strconv.Quote(name) + " in " + values + " && " + text + ")"
	}
	return inverted(text, s.Invert)
}

// inverted returns the condition, or its opposite.
func inverted(text string, invert bool) *condition {
	if invert {
		text = "!(" + text + ")"
	}
	return &condition{cel: text}
}

// methodCondition returns the condition that the request has one of the methods.
func methodCondition(methods []methodSelector) (*condition, error) {
	var names, quoted []string
	for _, m := range methods {
		if slices.Contains(names, m.Value) || m.Invert && len(methods) > 1 {
			return nil, errors.New("one of several methods is inverted or repeated: Envoy counts a request once for each method that it matches")
		}
		names, quoted = append(names, m.Value), append(quoted, strconv.Quote(m.Value))
	}
	switch {
	case len(methods) == 0:
		return nil, nil
	case methods[0].Invert:
		return &condition{cel: "request.method != " + quoted[0]}, nil
	}
	return &condition{"request.method in [" + strings.Join(quoted, ", ") + "]", func(m *v1alpha1.Match) { m.Methods = names }}, nil
}

// addSource restricts the clients to a network, which is valid.
func (c *clients) addSource(s *valueSelector) {
	prefix := netip.MustParsePrefix(*s.Value)
	c.network = &network{prefix: prefix.Masked(), distinct: s.Type == "Distinct", inverted: s.Invert}
	if c.network.distinct {
		c.key = append(c.key, wholeAddress())
	}
}

// cidrs returns the networks of the clients.
func (n *network) cidrs() (all []string) {
	if n == nil {
		return nil
	}
	if !n.inverted {
		return []string{n.prefix.String()}
	}
	if n.prefix.Addr().Is4() {
		all = append(all, "::/0")
	} else {
		all = append(all, "0.0.0.0/0")
	}
	bytes := n.prefix.Addr().AsSlice()
	for bit := range n.prefix.Bits() { // the other half of each network around it
		other := slices.Clone(bytes)
		other[bit/8] ^= 0x80 >> (bit % 8)
		address, _ := netip.AddrFromSlice(other)
		all = append(all, netip.PrefixFrom(address, bit+1).Masked().String())
	}
	return all
}

// invalid returns why Envoy Gateway rejects the rule, nil for a valid one. It sets the default types of selectors.
func (r *trafficRule) invalid() *fieldProblem {
	if r.Limit.seconds() == 0 {
		return &fieldProblem{"limit.unit", fmt.Sprintf("%q is not Second, Minute, Hour, Day, Week, Month or Year", r.Limit.Unit)}
	}
	for i := range r.ClientSelectors {
		s, at := &r.ClientSelectors[i], fmt.Sprintf("clientSelectors[%d]", i)
		if len(s.Headers)+len(s.Methods)+len(s.QueryParams) == 0 && s.Path == nil && s.SourceCIDR == nil {
			return &fieldProblem{at, "selects nothing"}
		}
		if problem := s.invalid(); problem != nil {
			return &fieldProblem{at + "." + problem.field, problem.text}
		}
	}
	return nil
}

// invalid returns why Envoy Gateway rejects a field of the selector, nil for a valid one.
func (s *clientSelector) invalid() *fieldProblem {
	for i := range s.Headers {
		if text := s.Headers[i].invalid("Exact", "RegularExpression", "Distinct"); text != "" {
			return &fieldProblem{fmt.Sprintf("headers[%d]", i), text}
		}
	}
	for i := range s.QueryParams {
		q := &s.QueryParams[i]
		text := q.invalid("Exact", "RegularExpression", "Distinct")
		if q.Value != nil && *q.Value == "" {
			text = "needs a value"
		}
		if text != "" {
			return &fieldProblem{fmt.Sprintf("queryParams[%d]", i), text}
		}
	}
	if s.Path != nil {
		if text := s.Path.invalid("PathPrefix", "Exact", "RegularExpression"); text != "" {
			return &fieldProblem{"path", text}
		}
	}
	if s.SourceCIDR == nil {
		return nil
	}
	if _, err := netip.ParsePrefix(ptr.Deref(s.SourceCIDR.Value, "")); err != nil {
		return &fieldProblem{"sourceCIDR", "is not a network"}
	}
	return nil
}

// invalid returns why Envoy Gateway rejects the selector, "" if it does not. Without a type it has the first one.
func (s *valueSelector) invalid(types ...string) string {
	s.Type = cmp.Or(s.Type, types[0])
	switch {
	case !slices.Contains(types, s.Type):
		return fmt.Sprintf("the type %q is not one of %s", s.Type, strings.Join(types, ", "))
	case s.Type == "Distinct" && (s.Value != nil || s.Invert):
		return "has the type Distinct and a value, or is inverted"
	case s.Type != "Distinct" && s.Value == nil:
		return "needs a value"
	}
	if s.Type == "RegularExpression" {
		if _, err := regexp.Compile(*s.Value); err != nil {
			return fmt.Sprintf("%q is not a regular expression", *s.Value)
		}
	}
	return ""
}
