// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// nginxServer is a server that the controller configures for a host: its names, and which Ingress each of its locations has
// the annotations of. Source: internal/ingress/controller of kubernetes/ingress-nginx, getBackendServers, createServers and
// updateServerLocations, and buildLocation of its template.
type nginxServer struct {
	host      string // of rules; empty for the default server
	names     []hostName
	locations []*nginxLocation // the first is "/" until they are sorted
	// isRegex makes every path a regular expression, case-insensitive and anchored at its start. The first location that
	// matches decides; without it the exact path, then the longest prefix.
	isRegex bool
}

// nginxLocation is a path of a server.
type nginxLocation struct {
	path    string
	isExact bool
	owner   *nginxIngress
	// isDefault is true for the "/" that each server begins with: it has the annotations of the oldest Ingress of the host,
	// and is replaced by the first Ingress with the path "/".
	isDefault bool
	// ignoresRewrite is true for the "/" of an Ingress without rules.
	ignoresRewrite bool
	rivals         []*nginxIngress // which the owner precedes
}

// noIngress owns the locations of the controller itself, and those whose owner is unknown.
var noIngress = &nginxIngress{Ingress: &networkingv1.Ingress{}}

// buildServers sets the servers of the Ingresses.
func (c *nginxConverter) buildServers() {
	var active []*nginxIngress
	for _, i := range slices.SortedStableFunc(slices.Values(c.ingresses), compareAge) {
		if !i.isCanary {
			active = append(active, i)
		}
	}
	servers := beginServers(active)
	for _, i := range active {
		for _, rule := range i.Spec.Rules {
			servers[strings.ToLower(rule.Host)].addPaths(i, rule.HTTP)
		}
	}
	c.servers = slices.SortedFunc(maps.Values(servers), func(a, b *nginxServer) int {
		return cmp.Compare(cmp.Or(a.host, "_"), cmp.Or(b.host, "_"))
	})
	for _, s := range c.servers {
		c.settle(s)
		s.expand()
	}
	c.nameServers(active)
}

// beginServers returns the servers by host, each with its first "/".
func beginServers(active []*nginxIngress) map[string]*nginxServer {
	root := &nginxLocation{path: "/", owner: noIngress, isDefault: true}
	servers := map[string]*nginxServer{"": {locations: []*nginxLocation{root}}}
	for _, i := range active {
		if backend := i.Spec.DefaultBackend; len(i.Spec.Rules) == 0 && backend != nil && backend.Resource == nil {
			root.claim(i)
			root.ignoresRewrite = true
		}
		for _, rule := range i.Spec.Rules {
			host := strings.ToLower(rule.Host)
			if s := servers[host]; s == nil {
				servers[host] = &nginxServer{host: host, locations: []*nginxLocation{{path: "/", owner: i, isDefault: true}}}
			} else if host != "" {
				s.locations[0].addRival(i)
			}
		}
	}
	return servers
}

// addPaths adds a location for each path of the rule.
func (s *nginxServer) addPaths(i *nginxIngress, rule *networkingv1.HTTPIngressRuleValue) {
	if rule == nil {
		return
	}
	for _, p := range rule.Paths {
		if p.Backend.Resource != nil {
			continue // the controller only knows Services
		}
		path := cmp.Or(p.Path, "/")
		isExact := p.PathType != nil && *p.PathType == networkingv1.PathTypeExact
		index := slices.IndexFunc(s.locations, func(l *nginxLocation) bool { return l.path == path && l.isExact == isExact })
		if index >= 0 {
			s.locations[index].claim(i)
		} else {
			s.locations = append(s.locations, &nginxLocation{path: path, isExact: isExact, owner: i})
		}
	}
}

// claim gives the location to the Ingress, unless an older one has it.
func (l *nginxLocation) claim(i *nginxIngress) {
	if l.isDefault {
		*l = nginxLocation{path: l.path, owner: i}
	} else {
		l.addRival(i)
	}
}

func (l *nginxLocation) addRival(i *nginxIngress) {
	if l.owner != i {
		l.rivals = append(l.rivals, i)
	}
}

// forcesRegex reports whether the location, if the Ingress has it, makes all paths of its server regular expressions: a target
// equal to the path does not, if that stays as it is in expand.
func (l *nginxLocation) forcesRegex(i *nginxIngress) bool {
	staysEqual := i.rewriteTarget == l.path && (l.isExact || strings.HasSuffix(l.path, "/"))
	return !l.ignoresRewrite && (i.useRegex || i.rewriteTarget != "" && !staysEqual)
}

// contenders returns the Ingresses that may have the location: its owner, and the ones whose age is unknown.
func (l *nginxLocation) contenders() []*nginxIngress {
	found := []*nginxIngress{l.owner}
	for _, rival := range l.rivals {
		if !isOrderKnown(l.owner, rival) && !slices.Contains(found, rival) {
			found = append(found, rival)
		}
	}
	return found
}

// settle sets isRegex, and notes what depends on unknown ages. No Ingress limits these locations.
func (c *nginxConverter) settle(s *nginxServer) {
	s.isRegex = slices.ContainsFunc(s.locations, func(l *nginxLocation) bool { return slices.ContainsFunc(l.contenders(), l.forcesRegex) })
	isCertain := slices.ContainsFunc(s.locations, func(l *nginxLocation) bool {
		return !slices.ContainsFunc(l.contenders(), func(i *nginxIngress) bool { return !l.forcesRegex(i) })
	})
	if s.isRegex {
		s.addTies()
	}
	for _, l := range s.locations {
		contenders := l.contenders()
		decides := slices.ContainsFunc(contenders, isLimited)
		switch {
		case s.isRegex && !isCertain && decides:
			c.contest(contenders, "path %s of %s, whose paths are regular expressions or not by the age of its Ingresses, which the files do not have", l.path, s.label())
		case len(contenders) == 1 || !decides:
			continue
		case l.isDefault && !slices.ContainsFunc(contenders, func(i *nginxIngress) bool { return i.Spec.DefaultBackend != nil }):
			c.note(contenders[slices.IndexFunc(contenders, isLimited)].at, "paths of %s that no Ingress serves are not limited: nginx limits them by the oldest Ingress of the host, "+
				"and the files have no creationTimestamp", s.label())
		default:
			c.contest(contenders, "path %s of %s, which several Ingresses have: the oldest decides, and the files have no creationTimestamp", l.path, s.label())
		}
		l.owner = noIngress
	}
}

// addTies makes rivals of locations with one path and two types: among regular expressions of one length the older decides.
func (s *nginxServer) addTies() {
	for _, l := range s.locations {
		for _, other := range s.locations {
			if other != l && other.path == l.path && l.path != "/" {
				l.addRival(other.owner)
			}
		}
	}
}

// contest notes as lost what depends on which of the Ingresses is older.
func (c *nginxConverter) contest(contenders []*nginxIngress, format string, args ...any) {
	var limited *nginxIngress
	var others []string
	for _, i := range contenders {
		i.isReported = true
		if limited == nil && i.isLimited {
			limited = i
		} else {
			others = append(others, i.at)
		}
	}
	if len(others) > 0 {
		format += " (also " + strings.Join(others, ", ") + ")"
	}
	c.lose(limited.at, format+"; convert the output of kubectl get ingresses -A -o yaml", args...)
}

// label names the host of the server.
func (s *nginxServer) label() string { return cmp.Or(s.host, "any host") }

// expand sorts the locations as the controller does, the longest first, and adds "/a/" and the exact "/a" for a prefix "/a".
func (s *nginxServer) expand() {
	slices.SortStableFunc(s.locations, func(a, b *nginxLocation) int {
		return cmp.Or(cmp.Compare(len(b.path), len(a.path)), cmp.Compare(b.path, a.path))
	})
	var expanded []*nginxLocation
	for _, l := range s.locations {
		if l.path == "/" || l.isExact || l.forcesRegex(l.owner) {
			expanded = append(expanded, l)
			continue
		}
		expanded = append(expanded, &nginxLocation{path: strings.TrimSuffix(l.path, "/") + "/", owner: l.owner})
		if !slices.ContainsFunc(s.locations, func(other *nginxLocation) bool { return other.isExact && other.path == l.path }) {
			expanded = append(expanded, &nginxLocation{path: l.path, isExact: true, owner: l.owner})
		}
	}
	s.locations = expanded
}

func isLimited(i *nginxIngress) bool { return i.isLimited }

// isLimited reports whether nginx limits a location of the server.
func (s *nginxServer) isLimited() bool {
	return slices.ContainsFunc(s.locations, func(l *nginxLocation) bool { return l.owner.isLimited })
}

// isOnlyOf reports whether all locations of the server are of the Ingress.
func (s *nginxServer) isOnlyOf(i *nginxIngress) bool {
	return !slices.ContainsFunc(s.locations, func(l *nginxLocation) bool { return l.owner != i })
}

// limitsUnserved reports whether nginx limits paths of the server that no Ingress serves.
func (s *nginxServer) limitsUnserved() bool {
	return slices.ContainsFunc(s.locations, func(l *nginxLocation) bool {
		return l.isDefault && l.owner.isLimited && l.owner.Spec.DefaultBackend == nil
	})
}
