// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

type httpRoute struct {
	*manifest `json:"-"`

	Spec struct {
		ParentRefs []struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"parentRefs"`
		Hostnames []string    `json:"hostnames"`
		Rules     []routeRule `json:"rules"`
	} `json:"spec"`
}

type routeRule struct {
	Name    string       `json:"name"`
	Matches []routeMatch `json:"matches"`
}

type routeMatch struct {
	Path        *routeValue  `json:"path"`
	Headers     []routeValue `json:"headers"`
	QueryParams []routeValue `json:"queryParams"`
	Method      string       `json:"method"`
}

// routeValue is the type, the name and the value of a condition; the path has no name.
type routeValue struct {
	Type  string `json:"type"`
	Name  string `json:"name"`
	Value string `json:"value"`
}

type gateway struct {
	*manifest `json:"-"`

	Spec struct {
		Listeners []struct {
			Hostname string `json:"hostname"`
		} `json:"listeners"`
	} `json:"spec"`
}

// hosts returns the hostnames of the listeners; none if one accepts every host.
func (g *gateway) hosts() (hosts []string) {
	for _, l := range g.Spec.Listeners {
		if l.Hostname == "" {
			return nil
		}
		hosts = append(hosts, l.Hostname)
	}
	return hosts
}

// kuadrantObjects are the objects of the files.
type kuadrantObjects struct {
	sources  []*kuadrantPolicy
	routes   []*httpRoute
	gateways map[string]*gateway // by "namespace/name"
}

const (
	kuadrantVersion = "kuadrant.io/v1"
	gatewayGroup    = "gateway.networking.k8s.io/"
)

// read adds the object, if it matters.
func (o *kuadrantObjects) read(m *manifest) (err error) {
	switch {
	case m.APIVersion == kuadrantVersion && m.Kind == "RateLimitPolicy":
		p := &kuadrantPolicy{manifest: m}
		o.sources = append(o.sources, p)
		err = json.Unmarshal(m.text, p)
	case m.APIVersion == gatewayGroup+"v1" && m.Kind == "HTTPRoute", m.APIVersion == gatewayGroup+"v1beta1" && m.Kind == "HTTPRoute":
		r := &httpRoute{manifest: m}
		o.routes = append(o.routes, r)
		err = json.Unmarshal(m.text, r)
	case m.APIVersion == gatewayGroup+"v1" && m.Kind == "Gateway", m.APIVersion == gatewayGroup+"v1beta1" && m.Kind == "Gateway":
		g := &gateway{manifest: m}
		o.gateways[m.Namespace+"/"+m.Name] = g
		err = json.Unmarshal(m.text, g)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.id(), err)
	}
	return nil
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

// isAttached reports whether the route is attached to the Gateway.
func (r *httpRoute) isAttached(namespace, name string) bool {
	for _, parent := range r.Spec.ParentRefs {
		if parent.Name == name && (parent.Namespace == namespace || parent.Namespace == "" && r.Namespace == namespace) {
			return true
		}
	}
	return false
}

// hosts returns the hosts of the route: its own, or the hosts of its Gateways; none is every host.
func (o *kuadrantObjects) hosts(r *httpRoute) (hosts []string) {
	if len(r.Spec.Hostnames) > 0 {
		return r.Spec.Hostnames
	}
	for _, g := range o.gateways {
		if r.isAttached(g.Namespace, g.Name) {
			hosts = append(hosts, g.hosts()...)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
