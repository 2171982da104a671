// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewayapi

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The API groups.
var (
	gatewayVersion = schema.GroupVersion{Group: "gateway.networking.k8s.io", Version: "v1"}
	envoyVersion   = schema.GroupVersion{Group: "gateway.envoyproxy.io", Version: "v1alpha1"}
)

// The types have only the fields that are read, so that the decoder drops all others. Their values must not
// be changed.
type (
	// Gateway is a Gateway of the Gateway API.
	Gateway struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`

		Spec struct {
			Listeners []Section `json:"listeners,omitempty"`
		} `json:"spec"`
	}

	// Route is what HTTPRoutes and GRPCRoutes have in common.
	Route struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`

		Spec RouteSpec `json:"spec"`
	}

	// RouteSpec attaches a route to Gateways and divides it into rules.
	RouteSpec struct {
		ParentRefs []Reference `json:"parentRefs,omitempty"`
		Rules      []Section   `json:"rules,omitempty"`
	}

	// Section is a listener of a Gateway, or a rule of a route. Rules may have no name.
	Section struct {
		Name string `json:"name,omitempty"`
	}

	// Reference names an object, or a section of it. An empty Namespace is the one of the object that has
	// the reference; empty groups and kinds depend on the field.
	Reference struct {
		Group       string `json:"group,omitempty"`
		Kind        string `json:"kind,omitempty"`
		Namespace   string `json:"namespace,omitempty"`
		Name        string `json:"name"`
		SectionName string `json:"sectionName,omitempty"`
	}

	// HTTPRoute is a route of HTTP requests.
	HTTPRoute struct{ Route }

	// GRPCRoute is a route of gRPC calls.
	GRPCRoute struct{ Route }

	// SecurityPolicy is a SecurityPolicy of Envoy Gateway.
	SecurityPolicy struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`

		Spec   SecurityPolicySpec   `json:"spec"`
		Status SecurityPolicyStatus `json:"status"`
	}

	// SecurityPolicySpec selects targets by name or by label. MergeType is empty if the policy replaces the
	// policies of the parents of a target.
	SecurityPolicySpec struct {
		TargetRef       *Reference       `json:"targetRef,omitempty"`
		TargetRefs      []Reference      `json:"targetRefs,omitempty"`
		TargetSelectors []TargetSelector `json:"targetSelectors,omitempty"`
		MergeType       string           `json:"mergeType,omitempty"`
		ExtAuth         *ExtAuth         `json:"extAuth,omitempty"`
	}

	// TargetSelector selects objects by label. Namespaces is nil for the Namespace of the SecurityPolicy.
	TargetSelector struct {
		metav1.LabelSelector `json:",inline"`

		Kind       string `json:"kind"`
		Namespaces *struct {
			From string `json:"from"`
		} `json:"namespaces,omitempty"`
	}

	// ExtAuth makes Envoy ask a service whether a request may pass.
	ExtAuth struct {
		GRPC              *AuthService `json:"grpc,omitempty"`
		HTTP              *AuthService `json:"http,omitempty"`
		ContextExtensions []Section    `json:"contextExtensions,omitempty"`
	}

	// AuthService is that service.
	AuthService struct {
		BackendRef  *Reference  `json:"backendRef,omitempty"`
		BackendRefs []Reference `json:"backendRefs,omitempty"`
	}

	// SecurityPolicyStatus has the conditions of a SecurityPolicy, for each parent of its targets.
	SecurityPolicyStatus struct {
		Ancestors []Ancestor `json:"ancestors,omitempty"`
	}

	// Ancestor has the conditions for one parent.
	Ancestor struct {
		AncestorRef Reference   `json:"ancestorRef"`
		Conditions  []Condition `json:"conditions,omitempty"`
	}

	// Condition is a condition without its message and time.
	Condition struct {
		Type               string `json:"type"`
		Status             string `json:"status"`
		Reason             string `json:"reason"`
		ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	}
)

// list is a list of objects as the API server returns it.
type list[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []T `json:"items"`
}

// prototypes has an object and a list of each kind.
var prototypes = map[kind]struct {
	version schema.GroupVersion
	object  client.Object
	list    client.ObjectList
}{
	kindGateway:        {gatewayVersion, &Gateway{}, &list[Gateway]{}},
	kindHTTPRoute:      {gatewayVersion, &HTTPRoute{}, &list[HTTPRoute]{}},
	kindGRPCRoute:      {gatewayVersion, &GRPCRoute{}, &list[GRPCRoute]{}},
	kindSecurityPolicy: {envoyVersion, &SecurityPolicy{}, &list[SecurityPolicy]{}},
}

func (k kind) newObject() client.Object {
	return prototypes[k].object.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy of it
}

func (k kind) newList() client.ObjectList {
	return prototypes[k].list.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // a copy of it
}

// The copies share all fields that are not changed after decoding.

// DeepCopyObject implements runtime.Object.
func (g *Gateway) DeepCopyObject() runtime.Object { return new(*g) }

// DeepCopyObject implements runtime.Object.
func (r *HTTPRoute) DeepCopyObject() runtime.Object { return new(*r) }

// DeepCopyObject implements runtime.Object.
func (r *GRPCRoute) DeepCopyObject() runtime.Object { return new(*r) }

// DeepCopyObject implements runtime.Object.
func (p *SecurityPolicy) DeepCopyObject() runtime.Object { return new(*p) }

// DeepCopyObject implements runtime.Object.
func (l *list[T]) DeepCopyObject() runtime.Object {
	return &list[T]{TypeMeta: l.TypeMeta, ListMeta: l.ListMeta, Items: slices.Clone(l.Items)}
}

// newScheme returns a scheme with the types.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for k, p := range prototypes {
		scheme.AddKnownTypeWithName(p.version.WithKind(string(k)), p.object)
		scheme.AddKnownTypeWithName(p.version.WithKind(string(k)+"List"), p.list)
	}
	metav1.AddToGroupVersion(scheme, gatewayVersion)
	metav1.AddToGroupVersion(scheme, envoyVersion)
	return scheme
}
