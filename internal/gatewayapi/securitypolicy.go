// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewayapi

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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

// selection is whether a SecurityPolicy selects an object by its labels.
type selection int

const (
	notSelected selection = iota
	selected
	perhapsSelected // it depends on Namespaces and ReferenceGrants, which are not read
)

// selects returns whether the SecurityPolicy selects the object by its labels.
func (p *SecurityPolicy) selects(of kind, object metav1.Object) selection {
	for i := range p.Spec.TargetSelectors {
		s := &p.Spec.TargetSelectors[i]
		if kind(s.Kind) != of {
			continue
		}
		by, err := metav1.LabelSelectorAsSelector(&s.LabelSelector)
		if err != nil {
			return perhapsSelected
		}
		switch matches := by.Matches(labels.Set(object.GetLabels())); {
		case !matches:
		case p.Namespace == object.GetNamespace():
			return selected
		case s.Namespaces != nil && s.Namespaces.From != "Same":
			return perhapsSelected
		}
	}
	return notSelected
}

// policyOf returns the SecurityPolicy of the scope, nil if it has none. It returns false if it is uncertain. The
// object is the one of the scope.
func (s *Snapshot) policyOf(at scope, object metav1.Object) (*SecurityPolicy, bool) {
	candidates := slices.Clone(s.byScope[at])
	if at.section == "" {
		for _, p := range s.selecting {
			switch p.selects(at.kind, object) {
			case perhapsSelected:
				return nil, false
			case selected:
				if !slices.Contains(candidates, p) {
					candidates = append(candidates, p)
				}
			case notSelected:
			}
		}
	}
	switch len(candidates) {
	case 0:
		return nil, true
	case 1:
		return candidates[0], true
	}
	// One of several applies, the others are in conflict.
	candidates = slices.DeleteFunc(candidates, (*SecurityPolicy).isConflicted)
	if len(candidates) != 1 {
		return nil, false
	}
	return candidates[0], true
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
	if r.Namespace != "" {
		namespace = r.Namespace
	}
	return types.NamespacedName{Namespace: namespace, Name: r.Name}, true
}

// callsWeir reports whether the SecurityPolicy makes Envoy ask Weir. p may be nil.
func (s *Snapshot) callsWeir(p *SecurityPolicy) bool {
	if p == nil || p.Spec.ExtAuth == nil {
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
	if r.Namespace != "" {
		namespace = r.Namespace
	}
	return slices.Contains(s.services, types.NamespacedName{Namespace: namespace, Name: r.Name})
}
