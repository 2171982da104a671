// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// This file does in its own words, step by step, what kubernetes/ingress-nginx does in createUpstreams, createServers,
// getBackendServers and updateServerLocations (internal/ingress/controller, commit dbb11b92ddb7 of 2026-03-20). It shares no
// code with the converter.

const prefix = "nginx.ingress.kubernetes.io/"

// server is one server block.
type server struct {
	host      string // "_" is the default server
	aliases   []string
	locations []location
}

// location is one location block.
type location struct {
	path    string
	exact   bool
	ingress *networkingv1.Ingress // nil for the controller's own
	// standIn is true for the "/" that a server has until an Ingress has it.
	standIn bool
	regex   bool
	target  string
}

func (l *location) apply(i *networkingv1.Ingress) {
	l.ingress, l.regex, l.target = i, isTrue(i, "use-regex"), i.Annotations[prefix+"rewrite-target"]
}

func (l *location) rewrites() bool { return l.regex || l.target != "" && l.target != l.path }

func isTrue(i *networkingv1.Ingress, name string) bool {
	value, err := strconv.ParseBool(i.Annotations[prefix+name])
	return err == nil && value
}

// controller is the state of the controller.
type controller struct {
	ingresses []*networkingv1.Ingress // the oldest first
	canaries  map[string]bool         // upstreams that only canaries have
	servers   map[string]*server
}

// serversOf returns the servers that the controller makes of the Ingresses, sorted by host.
func serversOf(ingresses []*networkingv1.Ingress) []*server {
	c := &controller{ingresses: append([]*networkingv1.Ingress(nil), ingresses...), canaries: map[string]bool{}, servers: map[string]*server{}}
	slices.SortStableFunc(c.ingresses, func(a, b *networkingv1.Ingress) int {
		if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
			return strings.Compare(b.Namespace+"/"+b.Name, a.Namespace+"/"+a.Name)
		}
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	c.makeUpstreams()
	c.makeServers()
	c.makeAliases()
	c.makeLocations()
	var all []*server
	for _, s := range c.servers {
		slices.SortStableFunc(s.locations, func(a, b location) int { return strings.Compare(b.path, a.path) })
		slices.SortStableFunc(s.locations, func(a, b location) int { return len(b.path) - len(a.path) })
		s.locations = withSlashes(s.locations)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *server) int { return strings.Compare(a.host, b.host) })
	return all
}

func upstreamOf(i *networkingv1.Ingress, s *networkingv1.IngressServiceBackend) string {
	return fmt.Sprintf("%s-%s-%s%d", i.Namespace, s.Name, s.Port.Name, s.Port.Number)
}

func (c *controller) makeUpstreams() {
	known := map[string]bool{}
	for _, i := range c.ingresses {
		if d := i.Spec.DefaultBackend; d != nil && d.Service != nil {
			name := upstreamOf(i, d.Service)
			known[name], c.canaries[name] = true, isTrue(i, "canary")
		}
		for _, rule := range i.Spec.Rules {
			for _, p := range pathsOf(&rule) {
				if p.Backend.Service == nil {
					continue
				}
				if name := upstreamOf(i, p.Backend.Service); !known[name] {
					known[name], c.canaries[name] = true, isTrue(i, "canary")
				}
			}
		}
	}
}

func pathsOf(rule *networkingv1.IngressRule) []networkingv1.HTTPIngressPath {
	if rule.HTTP == nil {
		return nil
	}
	return rule.HTTP.Paths
}

func hostOf(rule *networkingv1.IngressRule) string {
	if rule.Host == "" {
		return "_"
	}
	return rule.Host
}

func (c *controller) makeServers() {
	c.servers["_"] = &server{host: "_", locations: []location{{path: "/", standIn: true}}}
	for _, i := range c.ingresses {
		if isTrue(i, "canary") {
			continue
		}
		root := &c.servers["_"].locations[0]
		if i.Spec.DefaultBackend != nil && i.Spec.DefaultBackend.Service != nil && root.standIn && len(i.Spec.Rules) == 0 {
			root.ingress, root.standIn = i, false // without its rewriting
		}
		for _, rule := range i.Spec.Rules {
			if c.servers[hostOf(&rule)] == nil {
				l := location{path: "/", standIn: true}
				l.apply(i)
				c.servers[hostOf(&rule)] = &server{host: hostOf(&rule), locations: []location{l}}
			}
		}
	}
}

func (c *controller) makeAliases() {
	all := map[string][]string{}
	for _, i := range c.ingresses {
		if isTrue(i, "canary") {
			continue
		}
		for _, rule := range i.Spec.Rules {
			if host := hostOf(&rule); len(all[host]) == 0 {
				for alias := range strings.SplitSeq(i.Annotations[prefix+"server-alias"], ",") {
					if alias = strings.TrimSpace(alias); alias != "" {
						all[host] = append(all[host], alias)
					}
				}
			}
		}
	}
	for host, aliases := range all {
		seen := map[string]bool{}
		for _, alias := range aliases {
			if c.servers[alias] == nil && !seen[alias] {
				seen[alias] = true
				c.servers[host].aliases = append(c.servers[host].aliases, alias)
			}
		}
		slices.Sort(c.servers[host].aliases)
	}
}

func (c *controller) makeLocations() {
	for _, i := range c.ingresses {
		for _, rule := range i.Spec.Rules {
			s := c.servers[hostOf(&rule)]
			if s == nil {
				s = c.servers["_"]
			}
			for _, p := range pathsOf(&rule) {
				if p.Backend.Service != nil && !c.canaries[upstreamOf(i, p.Backend.Service)] {
					s.add(i, &p)
				}
			}
		}
	}
}

func (s *server) add(i *networkingv1.Ingress, p *networkingv1.HTTPIngressPath) {
	path, exact := p.Path, p.PathType != nil && *p.PathType == networkingv1.PathTypeExact
	if path == "" {
		path = "/"
	}
	for n := range s.locations {
		l := &s.locations[n]
		if l.path != path {
			continue
		}
		if l.exact != exact {
			break
		}
		if l.standIn {
			l.standIn = false
			l.apply(i)
		}
		return
	}
	l := location{path: path, exact: exact}
	l.apply(i)
	s.locations = append(s.locations, l)
}

// withSlashes turns a prefix into the prefix with a slash, and the exact path if it is free.
func withSlashes(locations []location) (all []location) {
	exact := map[string]bool{}
	for _, l := range locations {
		exact[l.path] = exact[l.path] || l.exact
	}
	for _, l := range locations {
		if l.path == "/" || l.exact || l.rewrites() {
			all = append(all, l)
			continue
		}
		slashed := l
		if !strings.HasSuffix(slashed.path, "/") {
			slashed.path += "/"
		}
		all = append(all, slashed)
		if !exact[l.path] {
			l.exact = true
			all = append(all, l)
		}
	}
	return all
}
