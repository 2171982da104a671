// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The parts of Kuadrant's RateLimitPolicy (kuadrant.io/v1, v1beta3 and v1beta2) and of the Gateway API that matter here.

type kuadrantPolicy struct {
	*manifest `json:"-"`

	Spec struct {
		TargetRef struct {
			Kind        string `json:"kind"`
			Name        string `json:"name"`
			SectionName string `json:"sectionName"`
		} `json:"targetRef"`
		kuadrantLimits
		Defaults  *kuadrantLimits `json:"defaults"`
		Overrides *kuadrantLimits `json:"overrides"`
	} `json:"spec"`
}

type kuadrantLimits struct {
	Strategy string                   `json:"strategy"`
	When     []kuadrantWhen           `json:"when"`
	Limits   map[string]kuadrantLimit `json:"limits"`
}

type kuadrantLimit struct {
	Rates          []kuadrantRate    `json:"rates"`
	Counters       []kuadrantCounter `json:"counters"`
	When           []kuadrantWhen    `json:"when"`
	RouteSelectors []routeSelector   `json:"routeSelectors"`
}

// route is an HTTPRoute or a GRPCRoute.
type route struct {
	*manifest `json:"-"`

	Spec struct {
		ParentRefs []parentRef `json:"parentRefs"`
		Hostnames  []string    `json:"hostnames"`
		Rules      []routeRule `json:"rules"`
	} `json:"spec"`
}

type parentRef struct {
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	SectionName string `json:"sectionName"`
	Port        int64  `json:"port"`
}

type routeRule struct {
	Name    string       `json:"name"`
	Matches []routeMatch `json:"matches"`
}

type routeMatch struct {
	Path        *routeValue  `json:"path"`
	Headers     []routeValue `json:"headers"`
	QueryParams []routeValue `json:"queryParams"`
	Method      routeMethod  `json:"method"`
}

// routeValue is the type, the name and the value of a condition; the path has no name.
type routeValue struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Value string `json:"value"`
}

// routeMethod is the method of HTTP, or the service and the method of gRPC.
type routeMethod struct {
	HTTP string `json:"-"`

	Type    string `json:"type"`
	Service string `json:"service"`
	Method  string `json:"method"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *routeMethod) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &m.HTTP)
	}
	type plain routeMethod
	return json.Unmarshal(text, (*plain)(m))
}

// path returns the condition on the path of a call of the gRPC method, nil if the method has no name.
func (m *routeMethod) path() *routeValue {
	switch {
	case m.Service == "" && m.Method == "":
		return nil
	case m.Type == "RegularExpression" || m.Service == "":
		return &routeValue{Type: "RegularExpression", Value: "/" + m.pattern(m.Service) + "/" + m.pattern(m.Method)}
	case m.Method == "":
		return &routeValue{Type: "PathPrefix", Value: "/" + m.Service}
	}
	return &routeValue{Type: "Exact", Value: "/" + m.Service + "/" + m.Method}
}

// pattern returns the regular expression for a part of the path; an empty name is any name.
func (m *routeMethod) pattern(name string) string {
	switch {
	case name == "":
		return "[^/]+"
	case m.Type == "RegularExpression":
		return "(?:" + name + ")"
	}
	return strings.ReplaceAll(name, ".", `\.`) // names have letters, digits, dots and _
}

type gateway struct {
	*manifest `json:"-"`

	Spec struct {
		Listeners []listener `json:"listeners"`
	} `json:"spec"`
}

type listener struct {
	Name     string `json:"name"`
	Hostname string `json:"hostname"`
	Port     int64  `json:"port"`
}

// kuadrantObjects are the objects of the files.
type kuadrantObjects struct {
	sources  []*kuadrantPolicy
	tokens   []*kuadrantPolicy // TokenRateLimitPolicies
	routes   []*route
	gateways map[string]*gateway // by "namespace/name"
}

const (
	kuadrantGroup   = "kuadrant.io/"
	kuadrantVersion = kuadrantGroup + "v1"
	gatewayGroup    = "gateway.networking.k8s.io/"
)

// read adds the object, if it matters. unknown is the reason if it is a policy of a version that is not known.
func (o *kuadrantObjects) read(m *manifest) (unknown string, err error) {
	var object any
	switch {
	case strings.HasPrefix(m.APIVersion, kuadrantGroup):
		object, unknown = o.addPolicy(m)
	case !strings.HasPrefix(m.APIVersion, gatewayGroup):
	case m.Kind == plan.TargetHTTPRoute || m.Kind == plan.TargetGRPCRoute:
		r := &route{manifest: m}
		o.routes, object = append(o.routes, r), r
	case m.Kind == plan.TargetGateway:
		g := &gateway{manifest: m}
		o.gateways[m.Namespace+"/"+m.Name], object = g, g
	}
	if object == nil {
		return unknown, nil
	}
	if err := json.Unmarshal(m.text, object); err != nil {
		return "", m.problem(err)
	}
	if r, isRoute := object.(*route); isRoute && len(r.Spec.Rules) == 0 {
		r.Spec.Rules = []routeRule{{}} // the default of the API: a rule for every path
	}
	return "", nil
}

// addPolicy adds the object of Kuadrant if it is a policy of a known version.
func (o *kuadrantObjects) addPolicy(m *manifest) (object any, unknown string) {
	p := &kuadrantPolicy{manifest: m}
	switch id := m.APIVersion + " " + m.Kind; {
	case id == kuadrantVersion+" RateLimitPolicy", id == kuadrantVersion+"beta2 RateLimitPolicy", id == kuadrantVersion+"beta3 RateLimitPolicy":
		o.sources = append(o.sources, p)
		return p, ""
	case id == kuadrantVersion+"alpha1 TokenRateLimitPolicy":
		o.tokens = append(o.tokens, p)
		return p, ""
	case strings.HasSuffix(m.Kind, "RateLimitPolicy"):
		return nil, fmt.Sprintf("apiVersion %s is not supported, only %s, v1beta3 and v1beta2", m.APIVersion, kuadrantVersion)
	}
	return nil, ""
}

// effective returns the limits of the policy, and the path of their field.
func (p *kuadrantPolicy) effective() (limits *kuadrantLimits, field string) {
	switch {
	case p.Spec.Overrides != nil:
		return p.Spec.Overrides, "spec.overrides"
	case p.Spec.Defaults != nil:
		return p.Spec.Defaults, "spec.defaults"
	}
	return &p.Spec.kuadrantLimits, "spec"
}

// names returns the names of the limits in order.
func (l *kuadrantLimits) names() []string { return slices.Sorted(maps.Keys(l.Limits)) }

// ruleName returns the name of the rule for Kuadrant, which numbers rules without a name from rule-1 on.
func (r *route) ruleName(rule int) string {
	if name := r.Spec.Rules[rule].Name; name != "" {
		return name
	}
	return fmt.Sprintf("rule-%d", rule+1)
}
