// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewayapi

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// scope is what a SecurityPolicy applies to: a Gateway, a listener of it, a route or a rule of it.
type scope struct {
	kind                     kind
	namespace, name, section string
}

func nameOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// targetRefs returns the targets by name.
func (p *SecurityPolicy) targetRefs() []Reference {
	if p.Spec.TargetRef != nil {
		return append([]Reference{*p.Spec.TargetRef}, p.Spec.TargetRefs...)
	}
	return p.Spec.TargetRefs
}

// policy is a SecurityPolicy with the facts about it alone.
type policy struct {
	*SecurityPolicy

	rank       int  // in the order of names
	conflicted bool // see isConflicted
	callsWeir  bool // it makes Envoy ask Weir
}

// choice is the SecurityPolicies of one scope: none, one or several.
type choice struct {
	all, unconflicted one
}

// one is the first of several SecurityPolicies.
type one struct {
	first *policy // nil for none
	more  bool    // there are others
}

func (o *one) merge(other one) {
	o.more = o.more || other.more || o.first != nil && other.first != nil && o.first != other.first
	o.first = cmp.Or(o.first, other.first)
}

func (c *choice) add(p *policy) {
	c.all.merge(one{first: p})
	if !p.conflicted {
		c.unconflicted.merge(one{first: p})
	}
}

func (c *choice) merge(other choice) {
	c.all.merge(other.all)
	c.unconflicted.merge(other.unconflicted)
}

// policy returns the SecurityPolicy that applies, nil for none. It returns false if it is uncertain: one of
// several applies, and the others are in conflict.
func (c *choice) policy() (*policy, bool) {
	switch {
	case !c.all.more:
		return c.all.first, true
	case c.unconflicted.first == nil, c.unconflicted.more:
		return nil, false
	default:
		return c.unconflicted.first, true
	}
}

// isConflicted reports whether another SecurityPolicy of its target applies instead.
func (p *SecurityPolicy) isConflicted() bool {
	return slices.ContainsFunc(p.Status.Ancestors, func(a Ancestor) bool {
		return slices.ContainsFunc(a.Conditions, func(c Condition) bool {
			return c.Type == "Accepted" && c.Status == "False" && c.Reason == "Conflicted"
		})
	})
}

// acceptance is whether Envoy Gateway applies a SecurityPolicy.
type acceptance int

const (
	notAccepted acceptance = iota
	accepted
	notCurrent // the status is of an earlier generation
)

// acceptedFor returns whether Envoy Gateway applies the SecurityPolicy to requests of the Gateway's listener, or
// of all listeners if it is empty. Every condition for this Gateway must agree: a merged SecurityPolicy has
// several.
func (p *SecurityPolicy) acceptedFor(gateway types.NamespacedName, listener string) acceptance {
	result := notAccepted
	for i := range p.Status.Ancestors {
		a := &p.Status.Ancestors[i]
		if !a.AncestorRef.isGateway(gateway, p.Namespace) ||
			listener != "" && a.AncestorRef.SectionName != "" && a.AncestorRef.SectionName != listener {
			continue
		}
		for _, c := range a.Conditions {
			switch {
			case c.Type != "Accepted":
			case c.ObservedGeneration != p.Generation:
				return notCurrent
			case c.Status != "True":
				return notAccepted
			default:
				result = accepted
			}
		}
	}
	return result
}

// isGateway reports whether the reference, of an object in the Namespace, names the Gateway or a listener of it.
func (r *Reference) isGateway(gateway types.NamespacedName, namespace string) bool {
	named, ok := r.gateway(namespace)
	return ok && named == gateway
}

// gateway returns the Gateway that the reference of an object in the Namespace names, false for another kind.
func (r *Reference) gateway(namespace string) (types.NamespacedName, bool) {
	if r.Group != "" && r.Group != gatewayVersion.Group || r.Kind != "" && kind(r.Kind) != kindGateway {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: cmp.Or(r.Namespace, namespace), Name: r.Name}, true
}

// callsWeir reports whether the SecurityPolicy makes Envoy ask Weir.
func (s *Snapshot) callsWeir(p *SecurityPolicy) bool {
	if p.Spec.ExtAuth == nil {
		return false
	}
	auth := p.Spec.ExtAuth
	if slices.ContainsFunc(auth.ContextExtensions, func(e Section) bool { return e.Name == plan.GatewayExtension }) {
		return true
	}
	for _, service := range []*AuthService{auth.GRPC, auth.HTTP} {
		if service == nil {
			continue
		}
		refs := service.BackendRefs
		if service.BackendRef != nil {
			refs = append([]Reference{*service.BackendRef}, refs...)
		}
		if slices.ContainsFunc(refs, func(r Reference) bool { return s.isWeir(r, p.Namespace) }) {
			return true
		}
	}
	return false
}

// isWeir reports whether the reference, of an object in the Namespace, names a Service of Weir.
func (s *Snapshot) isWeir(r Reference, namespace string) bool {
	if r.Group != "" || r.Kind != "" && r.Kind != "Service" {
		return false
	}
	return slices.Contains(s.services, types.NamespacedName{Namespace: cmp.Or(r.Namespace, namespace), Name: r.Name})
}
