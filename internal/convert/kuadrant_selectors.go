// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Kuadrant's earlier versions have the same limits in other words: v1beta3 has predicates as texts, v1beta2 has selectors,
// operators, units and route selectors. These types read all of them, as the expressions of v1.

// kuadrantRate is a number of requests and its window.
type kuadrantRate struct {
	Limit  int64
	Window string // of time.ParseDuration
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *kuadrantRate) UnmarshalJSON(text []byte) error {
	rate := struct {
		Limit    int64           `json:"limit"`
		Window   string          `json:"window"`
		Duration json.RawMessage `json:"duration"` // a number of units, or a text as window
		Unit     string          `json:"unit"`
	}{}
	if err := json.Unmarshal(text, &rate); err != nil {
		return err
	}
	*r = kuadrantRate{Limit: rate.Limit, Window: rate.Window}
	seconds, isKnown := unitSeconds[rate.Unit]
	switch n, err := strconv.ParseInt(string(rate.Duration), 10, 32); {
	case rate.Window != "" || rate.Duration == nil:
	case err == nil && isKnown:
		r.Window = strconv.FormatInt(n*seconds, 10) + "s"
	default:
		r.Window = strings.Trim(string(rate.Duration), `"`) + rate.Unit
	}
	return nil
}

// kuadrantCounter is a counter for each value of an expression.
type kuadrantCounter struct {
	Expression string
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *kuadrantCounter) UnmarshalJSON(text []byte) error {
	var selector string
	if json.Unmarshal(text, &selector) == nil {
		c.Expression = selectorExpression(selector)
		return nil
	}
	type plain struct {
		Expression string `json:"expression"`
	}
	return json.Unmarshal(text, (*plain)(c))
}

// kuadrantWhen is a condition.
type kuadrantWhen struct {
	Predicate string
	// Unknown is an operator that no expression has; empty for none.
	Unknown string
	// defaultsToEmpty is true if an absent value is "", as in v1beta2. Later the condition then does not hold.
	defaultsToEmpty bool
}

// kuadrantOperators are the operators of v1beta2 as expressions of a selector and a text.
var kuadrantOperators = map[string]string{
	"eq": "%s == %s", "neq": "%s != %s", "startswith": "%s.startsWith(%s)", "endswith": "%s.endsWith(%s)", "matches": "%s.matches(%s)",
}

// UnmarshalJSON implements json.Unmarshaler.
func (w *kuadrantWhen) UnmarshalJSON(text []byte) error {
	*w = kuadrantWhen{}
	if json.Unmarshal(text, &w.Predicate) == nil {
		return nil
	}
	condition := struct {
		Predicate string `json:"predicate"`
		Selector  string `json:"selector"`
		Operator  string `json:"operator"`
		Value     string `json:"value"`
	}{}
	if err := json.Unmarshal(text, &condition); err != nil {
		return err
	}
	w.Predicate = condition.Predicate
	if condition.Selector == "" {
		return nil
	}
	w.defaultsToEmpty = true
	format, isKnown := kuadrantOperators[strings.ToLower(condition.Operator)]
	if !isKnown {
		w.Unknown = condition.Operator
	}
	w.Predicate = fmt.Sprintf(cmp.Or(format, "%s == %s"), selectorExpression(condition.Selector), strconv.Quote(condition.Value))
	return nil
}

// identitySelector begins the selectors of the identity that the authentication filter has found.
const identitySelector = `metadata.filter_metadata.envoy\.filters\.http\.ext_authz.`

// selectorExpression returns the expression for a path of names, in which `\.` is a dot of a name.
func selectorExpression(selector string) string {
	if rest, isIdentity := strings.CutPrefix(selector, identitySelector); isIdentity {
		selector = "auth.identity." + rest
	}
	const dot = "\x00"
	var expression strings.Builder
	for i, name := range strings.Split(strings.ReplaceAll(selector, `\.`, dot), ".") {
		name = strings.ReplaceAll(name, dot, ".")
		switch {
		case i == 0:
			expression.WriteString(name)
		case isIdentifier.MatchString(name):
			expression.WriteString("." + name)
		default:
			expression.WriteString("[" + strconv.Quote(name) + "]")
		}
	}
	return expression.String()
}

var isIdentifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// routeSelector selects the rules of a route of which a match has everything that one of its matches has.
type routeSelector struct {
	Hostnames []string     `json:"hostnames"`
	Matches   []routeMatch `json:"matches"`
}

// selects reports whether the limit applies to the rule.
func (l *kuadrantLimit) selects(rule *routeRule) bool {
	return len(l.RouteSelectors) == 0 || slices.ContainsFunc(l.RouteSelectors, func(s routeSelector) bool {
		return len(s.Matches) == 0 || slices.ContainsFunc(s.Matches, func(wanted routeMatch) bool {
			return slices.ContainsFunc(rule.Matches, func(m routeMatch) bool { return m.has(&wanted) })
		})
	})
}

// has reports whether the match has every condition of the other.
func (m *routeMatch) has(wanted *routeMatch) bool {
	hasAll := func(own, wanted []routeValue) bool {
		return !slices.ContainsFunc(wanted, func(v routeValue) bool {
			return !slices.ContainsFunc(own, func(o routeValue) bool { return o.withType("Exact") == v.withType("Exact") })
		})
	}
	isPath := wanted.Path == nil || m.Path != nil && m.Path.withType("PathPrefix") == wanted.Path.withType("PathPrefix")
	isMethod := wanted.Method == (routeMethod{}) || m.Method == wanted.Method
	return isPath && isMethod && hasAll(m.Headers, wanted.Headers) && hasAll(m.QueryParams, wanted.QueryParams)
}

// withType returns the value with the type, if it has none.
func (v *routeValue) withType(usual string) routeValue {
	return routeValue{Type: cmp.Or(v.Type, usual), Name: v.Name, Value: v.Value}
}
