// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The parts of the Gateway API that matter here.

const gatewayGroup = "gateway.networking.k8s.io/"

// routeObjects are the routes and Gateways of the files.
type routeObjects struct {
	routes   []*route
	gateways map[string]*gateway // by "namespace/name"
}

// readRoute adds the object if it is a route or a Gateway.
func (o *routeObjects) readRoute(m *manifest) error {
	switch {
	case !strings.HasPrefix(m.APIVersion, gatewayGroup):
	case m.Kind == plan.TargetHTTPRoute || m.Kind == plan.TargetGRPCRoute:
		r := &route{manifest: m}
		o.routes = append(o.routes, r)
		if err := m.decode(r); err != nil {
			return err
		}
		if len(r.Spec.Rules) == 0 {
			r.Spec.Rules = []routeRule{{}} // the default of the API: a rule for every path
		}
	case m.Kind == plan.TargetGateway:
		g := &gateway{manifest: m}
		o.gateways[m.Namespace+"/"+m.Name] = g
		return m.decode(g)
	}
	return nil
}

// route returns the route, or nil.
func (o *routeObjects) route(kind, namespace, name string) *route {
	i := slices.IndexFunc(o.routes, func(r *route) bool { return r.Kind == kind && r.Namespace == namespace && r.Name == name })
	if i < 0 {
		return nil
	}
	return o.routes[i]
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
	Name    string        `json:"name"`
	Matches []routeMatch  `json:"matches"`
	Filters []routeFilter `json:"filters"`
}

type routeFilter struct {
	Type string `json:"type"`
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
	Protocol string `json:"protocol"`

	AllowedRoutes struct {
		Namespaces struct {
			From string `json:"from"` // "" is Same
		} `json:"namespaces"`
	} `json:"allowedRoutes"`
}

// ruleName returns the name of the rule. Rules without a name have numbers, from rule-1 on, as Kuadrant numbers them.
func (r *route) ruleName(rule int) string {
	if name := r.Spec.Rules[rule].Name; name != "" {
		return name
	}
	return fmt.Sprintf("rule-%d", rule+1)
}
