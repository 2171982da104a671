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

// The parts of Kuadrant's RateLimitPolicy (kuadrant.io/v1) and of the Gateway API that matter here.

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
	Rates []struct {
		Limit  int64  `json:"limit"`
		Window string `json:"window"`
	} `json:"rates"`
	Counters []struct {
		Expression string `json:"expression"`
	} `json:"counters"`
	When []kuadrantWhen `json:"when"`
}

type kuadrantWhen struct {
	Predicate string `json:"predicate"`
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

// path returns the condition on the path of a call of the gRPC method; nil if there is none.
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
	kuadrantVersion      = "kuadrant.io/v1"
	kuadrantTokenVersion = "kuadrant.io/v1alpha1"
	gatewayGroup         = "gateway.networking.k8s.io/"
)

// read adds the object, if it matters. It returns the reason if no release of the object's kind is known that has this
// version.
func (o *kuadrantObjects) read(m *manifest) (unknown string, err error) {
	switch group, _, _ := strings.Cut(m.APIVersion, "/"); {
	case m.APIVersion == kuadrantVersion && m.Kind == "RateLimitPolicy":
		p := &kuadrantPolicy{manifest: m}
		o.sources = append(o.sources, p)
		err = json.Unmarshal(m.text, p)
	case m.APIVersion == kuadrantTokenVersion && m.Kind == "TokenRateLimitPolicy":
		p := &kuadrantPolicy{manifest: m}
		o.tokens = append(o.tokens, p)
		err = json.Unmarshal(m.text, p)
	case group == "kuadrant.io" && strings.HasSuffix(m.Kind, "RateLimitPolicy"):
		unknown = fmt.Sprintf("apiVersion %s is not supported, only %s", m.APIVersion, kuadrantVersion)
	case strings.HasPrefix(m.APIVersion, gatewayGroup) && (m.Kind == plan.TargetHTTPRoute || m.Kind == plan.TargetGRPCRoute):
		r := &route{manifest: m}
		o.routes = append(o.routes, r)
		err = json.Unmarshal(m.text, r)
	case strings.HasPrefix(m.APIVersion, gatewayGroup) && m.Kind == plan.TargetGateway:
		g := &gateway{manifest: m}
		o.gateways[m.Namespace+"/"+m.Name] = g
		err = json.Unmarshal(m.text, g)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", m.id(), err)
	}
	return unknown, nil
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

// attachment is one listener that a route is attached to, with the hosts of the route there; none is every host.
type attachment struct {
	namespace, gateway, listener string
	hosts                        []string
}

// attachments returns the listeners of the route. A Gateway that is not among the files has one listener without a name.
// Without any, the route has one attachment without a Gateway.
func (o *kuadrantObjects) attachments(r *route) (found []attachment) {
	for _, parent := range r.Spec.ParentRefs {
		if parent.Kind != "" && parent.Kind != plan.TargetGateway {
			continue
		}
		if parent.Namespace == "" {
			parent.Namespace = r.Namespace
		}
		g := o.gateways[parent.Namespace+"/"+parent.Name]
		if g == nil {
			found = append(found, attachment{parent.Namespace, parent.Name, parent.SectionName, r.Spec.Hostnames})
			continue
		}
		for _, l := range g.Spec.Listeners {
			hosts, common := commonHosts(l.Hostname, r.Spec.Hostnames)
			if common && (parent.SectionName == "" || parent.SectionName == l.Name) && (parent.Port == 0 || parent.Port == l.Port) {
				found = append(found, attachment{parent.Namespace, parent.Name, l.Name, hosts})
			}
		}
	}
	if len(found) == 0 && len(r.Spec.ParentRefs) == 0 {
		found = []attachment{{hosts: r.Spec.Hostnames}}
	}
	return found
}

// commonHosts returns the hosts of the route that the listener accepts. It reports false if there are none.
func commonHosts(hostname string, hostnames []string) (common []string, exist bool) {
	if hostname == "" {
		return hostnames, true
	}
	if len(hostnames) == 0 {
		return []string{hostname}, true
	}
	for _, h := range hostnames {
		switch {
		case includesHost(hostname, h):
			common = append(common, h)
		case includesHost(h, hostname):
			common = append(common, hostname)
		}
	}
	return common, len(common) > 0
}

// includesHost reports whether the name, which may begin with "*.", has all hosts of the other one.
func includesHost(name, other string) bool {
	suffix, isWildcard := strings.CutPrefix(name, "*")
	return name == other || isWildcard && strings.HasSuffix(other, suffix)
}
