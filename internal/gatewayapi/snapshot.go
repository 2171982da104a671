// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewayapi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/message"
)

// maxMessageBytes bounds the message of a Finding.
const maxMessageBytes = 1000

// kind is a kind of objects.
type kind string

const (
	kindGateway        kind = plan.TargetGateway
	kindHTTPRoute      kind = plan.TargetHTTPRoute
	kindGRPCRoute      kind = plan.TargetGRPCRoute
	kindSecurityPolicy kind = "SecurityPolicy"
)

var allKinds = []kind{kindGateway, kindHTTPRoute, kindGRPCRoute, kindSecurityPolicy}

// availability is what a Snapshot has of a kind.
type availability int

const (
	// pending: the objects are not known yet.
	pending availability = iota
	// readable: the snapshot has all objects.
	readable
	// absent: the API server has no such kind, so there are no objects.
	absent
	// forbidden: Weir may not read them.
	forbidden
)

// Result is the kind of a Finding.
type Result string

// The results.
const (
	// Nothing means that the objects prove nothing about the traffic of the policy.
	Nothing Result = ""
	// Pending means that the objects are not known yet.
	Pending Result = "Pending"
	// NotFound means that a target does not exist.
	NotFound Result = "NotFound"
	// Bypassed means that a SecurityPolicy keeps requests of a target from Weir.
	Bypassed Result = "Bypassed"
	// Unchecked means that too many targetSelectors may select a target or its Gateway to find out whether it is bypassed.
	Unchecked Result = "Unchecked"
)

// uncheckedMessage describes Unchecked.
const uncheckedMessage = "It is unknown whether SecurityPolicies keep requests from Weir: those of one Namespace have too many targetSelectors for " +
	"the labels that they may select."

// Finding is what the objects prove about the targets of one policy. The message names the objects.
type Finding struct {
	Result  Result
	Message string
}

// Snapshot is all objects at one time, with the bypasses among them. It is immutable.
type Snapshot struct {
	kinds    map[kind]availability
	services []types.NamespacedName // of Weir
	gateways map[types.NamespacedName]*Gateway
	routes   map[routeName]*Route
	policies []*SecurityPolicy // in the order of their names

	// The first bypass of each Gateway, listener, route and rule, in the order of the names of the SecurityPolicies.
	bypasses  map[scope]*bypass
	unsettled map[scope]*bypass // whose SecurityPolicies have the status of an earlier generation
	unchecked map[scope]bool    // Gateways and routes that have too many selectors to find their bypasses
	steps     int               // that it took to find them
}

// routeName identifies a route.
type routeName struct {
	kind kind
	types.NamespacedName
}

// scope returns the scope of the route, or of a rule of it.
func (n routeName) scope(rule string) scope {
	return scope{kind: n.kind, namespace: n.Namespace, name: n.Name, section: rule}
}

// NewSnapshot returns a Snapshot of these Gateways, routes and SecurityPolicies, of which there are no others. services are the
// Services of Weir.
func NewSnapshot(services []types.NamespacedName, objects ...client.Object) *Snapshot {
	s := newSnapshot(services)
	for _, k := range allKinds {
		s.kinds[k] = readable
	}
	for _, o := range objects {
		s.add(o)
	}
	s.index()
	return s
}

// newSnapshot returns a Snapshot without objects, which is not indexed yet.
func newSnapshot(services []types.NamespacedName) *Snapshot {
	return &Snapshot{
		kinds: map[kind]availability{}, services: services, gateways: map[types.NamespacedName]*Gateway{}, routes: map[routeName]*Route{},
	}
}

func (s *Snapshot) add(object client.Object) {
	name := client.ObjectKeyFromObject(object)
	switch o := object.(type) {
	case *Gateway:
		s.gateways[name] = o
	case *HTTPRoute:
		s.routes[routeName{kindHTTPRoute, name}] = &o.Route
	case *GRPCRoute:
		s.routes[routeName{kindGRPCRoute, name}] = &o.Route
	case *SecurityPolicy:
		s.policies = append(s.policies, o)
	}
}

// Steps returns the number of steps that it took to find the bypasses: objects, references and comparisons.
func (s *Snapshot) Steps() int { return s.steps }

// index sets the fields that follow from the objects.
func (s *Snapshot) index() {
	slices.SortFunc(s.policies, func(a, b *SecurityPolicy) int { return strings.Compare(nameOf(a), nameOf(b)) })
	s.bypasses, s.unsettled, s.unchecked = map[scope]*bypass{}, map[scope]*bypass{}, map[scope]bool{}
	if s.kinds[kindSecurityPolicy] == readable {
		newFinder(s).findBypasses()
	}
}

// Judge returns what the objects prove about a policy with these targets.
func (s *Snapshot) Judge(targets []plan.Target) Finding {
	if b := firstOf(s.bypasses, targets); b != nil {
		return Finding{Result: Bypassed, Message: b.String()}
	}
	var missing []string
	for _, t := range targets {
		if problem := s.missing(t); problem != "" {
			missing = append(missing, problem)
		}
	}
	switch {
	case len(missing) > 0:
		return Finding{Result: NotFound, Message: message.Truncate(strings.Join(missing, " "), maxMessageBytes)}
	case s.isPending() || firstOf(s.unsettled, targets) != nil:
		return Finding{Result: Pending}
	case slices.ContainsFunc(targets, s.isUnchecked):
		return Finding{Result: Unchecked, Message: uncheckedMessage}
	default:
		return Finding{}
	}
}

// isPending reports whether the objects of a kind are not known yet.
func (s *Snapshot) isPending() bool {
	return slices.ContainsFunc(allKinds, func(k kind) bool { return s.kinds[k] == pending })
}

// firstOf returns the first bypass that concerns one of the targets, or nil.
func firstOf(bypasses map[scope]*bypass, targets []plan.Target) *bypass {
	for _, t := range targets {
		if b := bypasses[scopeOf(t)]; b != nil {
			return b
		}
	}
	return nil
}

// scopeOf returns the scope that the target names.
func scopeOf(t plan.Target) scope {
	of, namespace, name, section := t.Split()
	return scope{kind(of), namespace, name, section}
}

// isUnchecked reports whether the bypasses of the object that the target names are unknown.
func (s *Snapshot) isUnchecked(t plan.Target) bool {
	at := scopeOf(t)
	at.section = ""
	return s.unchecked[at]
}

// Missing returns which of the targets do not exist, "" if all do. A target counts only if Weir can read its kind. isKnown is false
// while the objects of the kind of a target are not known yet.
func (s *Snapshot) Missing(targets []plan.Target) (problems string, isKnown bool) {
	var missing []string
	for _, t := range targets {
		of, _, _, _ := t.Split()
		switch s.kinds[kind(of)] {
		case pending:
			return "", false
		case absent, forbidden:
		case readable:
			if problem := s.missing(t); problem != "" {
				missing = append(missing, problem)
			}
		}
	}
	return message.Truncate(strings.Join(missing, " "), maxMessageBytes), true
}

// missing returns why the target does not exist, or "" if it does, or if its kind cannot be read.
func (s *Snapshot) missing(t plan.Target) string {
	of, namespace, name, section := t.Split()
	name = namespace + "/" + name
	switch s.kinds[kind(of)] {
	case absent:
		return of + " " + name + " does not exist: the API server has no kind " + of + "."
	case pending, forbidden:
		return ""
	case readable:
	}
	sections, found := s.sectionsOf(t)
	switch {
	case !found:
		return of + " " + name + " does not exist."
	case section != "" && !slices.Contains(sections, Section{Name: section}):
		part := "rule"
		if kind(of) == kindGateway {
			part = "listener"
		}
		return of + " " + name + " has no " + part + " with the name " + section + "."
	}
	return ""
}

// sectionsOf returns the listeners or rules of the target's object, and whether the object exists.
func (s *Snapshot) sectionsOf(t plan.Target) ([]Section, bool) {
	of, namespace, name, _ := t.Split()
	object := types.NamespacedName{Namespace: namespace, Name: name}
	if kind(of) == kindGateway {
		if g := s.gateways[object]; g != nil {
			return g.Spec.Listeners, true
		}
		return nil, false
	}
	if r := s.routes[routeName{kind(of), object}]; r != nil {
		return r.Spec.Rules, true
	}
	return nil, false
}
