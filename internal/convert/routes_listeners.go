// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// attachment is one listener that a route is attached to, with the hosts of the route there; none is every host.
type attachment struct {
	namespace, gateway, listener string
	hosts                        []string
	port                         int64 // of the listener, 0 if unknown
}

// attachments returns the listeners of the route. A Gateway that is not among the files has one listener without a name.
// A route without parents has one attachment without a Gateway.
func (o *routeObjects) attachments(r *route) (found []attachment) {
	if len(r.Spec.ParentRefs) == 0 {
		return []attachment{{hosts: r.Spec.Hostnames}}
	}
	for i := range r.Spec.ParentRefs {
		found = append(found, o.attachmentsTo(r, r.Spec.ParentRefs[i])...)
	}
	return found
}

// attachmentsTo returns the listeners of one parent.
func (o *routeObjects) attachmentsTo(r *route, parent parentRef) (found []attachment) {
	if parent.Kind != "" && parent.Kind != plan.TargetGateway {
		return nil
	}
	namespace := cmp.Or(parent.Namespace, r.Namespace)
	g := o.gateways[namespace+"/"+parent.Name]
	if g == nil {
		return []attachment{{namespace: namespace, gateway: parent.Name, listener: parent.SectionName, hosts: r.Spec.Hostnames}}
	}
	for _, l := range g.Spec.Listeners {
		hosts, common := commonHosts(l.Hostname, r.Spec.Hostnames)
		if common && parent.selects(l) {
			found = append(found, attachment{namespace: namespace, gateway: parent.Name, listener: l.Name, hosts: hosts, port: l.Port})
		}
	}
	return found
}

// selects reports whether the parent is the listener, or its whole Gateway.
func (p *parentRef) selects(l listener) bool {
	return (p.SectionName == "" || p.SectionName == l.Name) && (p.Port == 0 || p.Port == l.Port)
}

// commonHosts returns the hosts of the route that the listener accepts. It reports false if the listener accepts none.
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
