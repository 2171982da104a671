// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/wiring"
)

// wireTarget is a Gateway or route that is to ask Weir, with the place of the first rule that needs it.
type wireTarget struct {
	kind, namespace, name, at string
}

// addTargets adds the Gateways of the policy to those that must ask Weir, if its source targets a Gateway, else its routes.
func (c *trafficConverter) addTargets(s source, policy *v1alpha1.RateLimitPolicy, where []placement) {
	add := func(kind, namespace, name string) {
		if !c.isTarget(kind, namespace, name) {
			c.targets = append(c.targets, wireTarget{kind, namespace, name, s.at()})
		}
	}
	for _, p := range where {
		for _, a := range p.listeners {
			if c.hasTarget(s.policy, plan.TargetGateway, a.namespace, a.gateway, "") || c.hasTarget(s.policy, plan.TargetGateway, a.namespace, a.gateway, a.listener) {
				add(plan.TargetGateway, a.namespace, a.gateway)
			} else {
				add(p.route.Kind, policy.Namespace, p.route.Name)
			}
		}
	}
}

// wire returns the manifests of all targets, each object once. A route whose Gateways ask Weir needs none.
func (c *trafficConverter) wire() (all []wiring.Manifest) {
	isGateway := func(t wireTarget) bool { return t.kind == plan.TargetGateway }
	routes := slices.DeleteFunc(slices.Clone(c.targets), isGateway)
	gateways := slices.DeleteFunc(slices.Clone(c.targets), func(t wireTarget) bool { return !isGateway(t) })
	for _, t := range append(gateways, routes...) {
		if c.isWired(t) {
			continue
		}
		manifests, notes, err := wiring.Make(&wiring.Options{
			Target: wiring.Target{Namespace: t.namespace, Name: t.name}, Name: slug("weir-"+t.name, 63), Timeout: 100 * time.Millisecond, FailOpen: true,
		}, c.factsOf(t))
		id := t.kind + " " + t.namespace + "/" + t.name
		if err != nil {
			c.lose(t.at, "%s does not call Weir: %s", id, err)
			continue
		}
		for _, note := range notes {
			c.note(id, "%s", note)
		}
		for _, m := range manifests {
			if !slices.ContainsFunc(all, func(other wiring.Manifest) bool { return isSameObject(m.Object, other.Object) }) {
				all = append(all, m)
			}
		}
	}
	return all
}

func isSameObject(a, b *unstructured.Unstructured) bool {
	return a.GetKind() == b.GetKind() && a.GetNamespace() == b.GetNamespace() && a.GetName() == b.GetName()
}

// isWired reports whether the target is a route whose Gateways all ask Weir.
func (c *trafficConverter) isWired(t wireTarget) bool {
	r := c.route(t.kind, t.namespace, t.name)
	return r != nil && !slices.ContainsFunc(c.listenersOf(r), func(a attachment) bool {
		return !c.isTarget(plan.TargetGateway, a.namespace, a.gateway)
	})
}

// isTarget reports whether the Gateway or route is among the targets.
func (c *trafficConverter) isTarget(kind, namespace, name string) bool {
	return slices.ContainsFunc(c.targets, func(t wireTarget) bool { return t.kind == kind && t.namespace == namespace && t.name == name })
}

// factsOf returns the objects of the files that matter for the target.
func (c *trafficConverter) factsOf(t wireTarget) *wiring.Facts {
	f := &wiring.Facts{
		Target: c.objectsWhere(func(o *unstructured.Unstructured) bool {
			return o.GetKind() == t.kind && o.GetNamespace() == t.namespace && o.GetName() == t.name
		})[0],
		WeirNamespace: c.options.WeirNamespace, Service: c.options.Service, Port: wiring.GRPCPort, Envoys: []string{c.options.EnvoyNamespace},
	}
	parents := map[string]bool{}
	for _, p := range wiring.ParentsOf(f.Target) {
		parents[p.Namespace+"/"+p.Name] = true
	}
	f.Parents = len(parents)
	f.Gateways = c.objectsWhere(func(o *unstructured.Unstructured) bool {
		return o.GetKind() == plan.TargetGateway && (o == f.Target || parents[o.GetNamespace()+"/"+o.GetName()])
	})
	f.Routes = c.objectsWhere(func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(wiring.ParentsOf(o), func(p wiring.Parent) bool { return p.Covers(f.Target, "") })
	})
	f.Policies = c.objectsWhere(func(o *unstructured.Unstructured) bool { return o.GetKind() == "SecurityPolicy" })
	slices.SortStableFunc(f.Policies, func(a, b *unstructured.Unstructured) int {
		return a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time)
	})
	return f
}

func (c *trafficConverter) objectsWhere(matters func(*unstructured.Unstructured) bool) (found []*unstructured.Unstructured) {
	for _, object := range c.objects {
		if matters(object) {
			found = append(found, object)
		}
	}
	return found
}
