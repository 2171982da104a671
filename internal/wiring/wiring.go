// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wiring makes the manifests by which a Gateway or route of Envoy Gateway asks Weir: the SecurityPolicy that sends the
// checks, the ReferenceGrant and the label that it needs, and mergeType in the SecurityPolicies of routes.
//
// Read the files in this order:
//
//	wiring.go     the objects of the cluster that matter, and the manifests as YAML
//	policy.go     the fields of SecurityPolicies that matter
//	manifests.go  the manifests of one target
package wiring

import (
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// EnvoyGroup is the API group of Envoy Gateway.
	EnvoyGroup = "gateway.envoyproxy.io"
	// EnvoyNamespace is the Namespace in which Envoy Gateway by default runs Envoy.
	EnvoyNamespace = "envoy-gateway-system"
	// ClientLabel is the label of Namespaces whose pods may ask for decisions.
	ClientLabel = "ratelimit.weir.dev/client=true"
	// GRPCPort is the default port of Weir's Service for checks of Envoy.
	GRPCPort = 8081
)

var (
	// EnvoyVersion is the API version of SecurityPolicies.
	EnvoyVersion = schema.GroupVersion{Group: EnvoyGroup, Version: "v1alpha1"}
	// GrantVersion is the API version of ReferenceGrants.
	GrantVersion = schema.GroupVersion{Group: gatewayv1.GroupName, Version: "v1beta1"}
)

// Target is the Gateway or route that is to ask Weir.
type Target struct {
	Namespace, Name string
	Section         string // listener or named rule; empty is all
}

// Options are the choices of the caller.
type Options struct {
	Target   Target
	Name     string        // of a new SecurityPolicy
	Timeout  time.Duration // of a check
	FailOpen bool          // admit requests while Weir does not answer
	// Set names the flags, of "timeout" and "fail-open", that replace the values of an existing SecurityPolicy.
	Set map[string]bool
}

// Facts are the objects of the cluster that matter for the target.
type Facts struct {
	Target        *unstructured.Unstructured
	Gateways      []*unstructured.Unstructured // the target, or the parents of the route that exist
	Parents       int                          // of the route
	Policies      []*unstructured.Unstructured // SecurityPolicies, oldest first
	Routes        []*unstructured.Unstructured // attached to the Gateway
	WeirNamespace string
	Service       string // of Weir
	Port          int64
	Envoys        []string // Namespaces with pods of Envoy
}

// Manifest is one object with the comment above it.
type Manifest struct {
	Comment string
	Object  *unstructured.Unstructured
}

// Write writes the manifests as YAML documents, each with its comment.
func Write(w io.Writer, manifests []Manifest) error {
	for i, m := range manifests {
		separator := "---\n"
		if i == 0 {
			separator = ""
		}
		text, err := yaml.Marshal(m.Object)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s# %s\n%s", separator, m.Comment, text); err != nil {
			return err
		}
	}
	return nil
}

// Parent is a Gateway, or its listener, that a route names.
type Parent struct{ Namespace, Name, Section string }

// ParentsOf returns the Gateways of the route.
func ParentsOf(route *unstructured.Unstructured) (parents []Parent) {
	refs, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs") // the schema has a list
	for _, ref := range refs {
		fields, _ := ref.(map[string]any)
		text := func(name, otherwise string) string {
			if value, isText := fields[name].(string); isText && value != "" {
				return value
			}
			return otherwise
		}
		if text("kind", plan.TargetGateway) == plan.TargetGateway && text("group", gatewayv1.GroupName) == gatewayv1.GroupName {
			parents = append(parents, Parent{text("namespace", route.GetNamespace()), text("name", ""), text("sectionName", "")})
		}
	}
	return parents
}

// Covers reports whether a route with the parent is attached to the Gateway, or to its listener unless that is empty.
func (p Parent) Covers(gateway *unstructured.Unstructured, listener string) bool {
	return p.Namespace == gateway.GetNamespace() && p.Name == gateway.GetName() && (listener == "" || p.Section == "" || p.Section == listener)
}
