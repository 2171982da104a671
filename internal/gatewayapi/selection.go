// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewayapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// maxComparisons bounds the work for the targetSelectors of the SecurityPolicies of one Namespace: a label or a value of a
// selector, compared with the labels of one or several equal objects.
const maxComparisons = 1 << 16

// objectSet is the objects of a kind and Namespace, or of all Namespaces if it is empty.
type objectSet struct {
	kind      kind
	namespace string
}

// labeled is what the objects with equal labels of one kind and Namespace have in common.
type labeled struct {
	namespace string
	labels    labels.Set
	selecting choice // the SecurityPolicies of the Namespace that select them
	last      *policy
	// uncertain is true if another SecurityPolicy selects them, depending on Namespaces and ReferenceGrants, which are not
	// read.
	uncertain bool
}

// selections are the SecurityPolicies that select objects by their labels.
type selections struct {
	ofObject  map[scope]*labeled
	sets      map[objectSet][]*labeled
	unchecked map[objectSet]bool // the objects that selectors beyond maxComparisons may select
	used      map[string]int     // comparisons by the Namespace of the SecurityPolicies
	steps     int
}

// newSelections compares the selectors of the SecurityPolicies, in the order of their names, with the labels of all objects.
func newSelections(s *Snapshot, policies []*policy) *selections {
	x := &selections{
		ofObject: map[scope]*labeled{}, sets: map[objectSet][]*labeled{}, unchecked: map[objectSet]bool{}, used: map[string]int{},
	}
	byLabels := map[string]*labeled{}
	for name, gateway := range s.gateways {
		x.add(byLabels, scope{kind: kindGateway, namespace: name.Namespace, name: name.Name}, gateway)
	}
	for name, route := range s.routes {
		x.add(byLabels, name.scope(""), route)
	}
	for _, p := range policies {
		for i := range p.Spec.TargetSelectors {
			x.compare(p, &p.Spec.TargetSelectors[i])
		}
	}
	return x
}

func (x *selections) add(byLabels map[string]*labeled, at scope, object metav1.Object) {
	x.steps++
	key := string(at.kind) + "/" + at.namespace + "/" + labels.Set(object.GetLabels()).String()
	l := byLabels[key]
	if l == nil {
		l = &labeled{namespace: at.namespace, labels: object.GetLabels()}
		byLabels[key] = l
		for _, namespace := range []string{at.namespace, ""} {
			set := objectSet{at.kind, namespace}
			x.sets[set] = append(x.sets[set], l)
		}
	}
	x.ofObject[at] = l
}

// compare compares the selector of the SecurityPolicy with all labels, or with none if they are too many.
func (x *selections) compare(p *policy, s *TargetSelector) {
	own := objectSet{kind(s.Kind), p.Namespace}
	set := own
	if s.Namespaces != nil && s.Namespaces.From != "Same" {
		set.namespace = ""
	}
	cost := s.size() * (1 + len(x.sets[set]))
	if x.used[p.Namespace]+cost > maxComparisons {
		x.unchecked[own], x.unchecked[set] = true, true
		return
	}
	x.used[p.Namespace] += cost
	x.steps += cost
	by, err := metav1.LabelSelectorAsSelector(&s.LabelSelector)
	for _, l := range x.sets[set] {
		switch {
		case l.last == p: // by an earlier selector
		case err != nil:
			l.uncertain = true
		case !by.Matches(l.labels):
		case l.namespace == p.Namespace:
			l.last = p
			l.selecting.add(p)
		default:
			l.uncertain = true
		}
	}
}

// size returns the number of labels and values of the selector, at least 1.
func (s *TargetSelector) size() int {
	n := 1 + len(s.MatchLabels)
	for i := range s.MatchExpressions {
		n += 1 + len(s.MatchExpressions[i].Values)
	}
	return n
}

// of returns the SecurityPolicies that select the object of the scope. sure is false if it is uncertain whether there are
// others, unchecked is true if that is because of maxComparisons.
func (x *selections) of(at scope) (c choice, sure, unchecked bool) {
	if x.unchecked[objectSet{at.kind, at.namespace}] || x.unchecked[objectSet{at.kind, ""}] {
		return c, false, true
	}
	l := x.ofObject[at]
	if l == nil {
		return c, true, false
	}
	return l.selecting, !l.uncertain, false
}
