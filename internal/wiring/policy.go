// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// mergeStrategy is the mergeType that keeps lists and objects of the SecurityPolicy of the Gateway.
const mergeStrategy = "StrategicMerge"

// TargetRef is a target of a policy of Envoy Gateway.
type TargetRef struct {
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	SectionName string `json:"sectionName"`
}

// TargetSelector selects targets of a policy of Envoy Gateway by their labels.
type TargetSelector struct {
	metav1.LabelSelector `json:",inline"`

	Kind       string `json:"kind"`
	Namespaces struct {
		From string `json:"from"`
	} `json:"namespaces"`
}

// Selects reports whether the selector selects an object of the kind with the labels.
func (s *TargetSelector) Selects(kind string, of map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(&s.LabelSelector)
	return err == nil && s.Kind == kind && selector.Matches(labels.Set(of))
}

// IsOfSameNamespace reports whether the selector selects only objects in the Namespace of its policy.
func (s *TargetSelector) IsOfSameNamespace() bool {
	return s.Namespaces.From == "" || s.Namespaces.From == "Same"
}

// securityPolicy is the part of a SecurityPolicy that decides whether its requests reach Weir.
type securityPolicy struct {
	TargetRef       *TargetRef       `json:"targetRef"` // deprecated by targetRefs
	TargetRefs      []TargetRef      `json:"targetRefs"`
	TargetSelectors []TargetSelector `json:"targetSelectors"`
	MergeType       string           `json:"mergeType"`
	ExtAuth         *struct {
		GRPC *struct {
			BackendRefs []struct {
				Namespace string `json:"namespace"`
				Name      string `json:"name"`
			} `json:"backendRefs"`
		} `json:"grpc"`
	} `json:"extAuth"`
}

// policyOf returns the fields of the SecurityPolicy.
func policyOf(object *unstructured.Unstructured) (*securityPolicy, error) {
	p := &securityPolicy{}
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(spec, p)
	}
	if err != nil {
		return nil, fmt.Errorf("SecurityPolicy %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	if p.TargetRef != nil {
		p.TargetRefs = append(p.TargetRefs, *p.TargetRef)
	}
	return p, nil
}

// targets reports whether the policy, of the given Namespace, applies to the object or to sections of it.
func (p *securityPolicy) targets(namespace string, object *unstructured.Unstructured) bool {
	if namespace == object.GetNamespace() && slices.ContainsFunc(p.TargetRefs, func(t TargetRef) bool {
		return t.Kind == object.GetKind() && t.Name == object.GetName()
	}) {
		return true
	}
	return p.selects(namespace, object)
}

// selects reports whether the policy, of the given Namespace, selects the object by its labels.
func (p *securityPolicy) selects(namespace string, object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(p.TargetSelectors, func(s TargetSelector) bool {
		return s.Selects(object.GetKind(), object.GetLabels()) && (namespace == object.GetNamespace() || !s.IsOfSameNamespace())
	})
}

// asks reports whether the policy sends checks to the Service of Weir.
func (p *securityPolicy) asks(policyNamespace, weirNamespace, service string) bool {
	if p.ExtAuth == nil || p.ExtAuth.GRPC == nil {
		return false
	}
	for _, ref := range p.ExtAuth.GRPC.BackendRefs {
		if cmp.Or(ref.Namespace, policyNamespace) == weirNamespace && ref.Name == service {
			return true
		}
	}
	return false
}

// forApply returns the object as a manifest, without what the API server adds.
func forApply(object *unstructured.Unstructured) *unstructured.Unstructured {
	manifest := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": object.GetAPIVersion(), "kind": object.GetKind(),
		"metadata": map[string]any{"name": object.GetName(), "namespace": object.GetNamespace()},
		"spec":     runtime.DeepCopyJSONValue(object.Object["spec"]),
	}}
	if found := object.GetLabels(); len(found) > 0 {
		manifest.SetLabels(found)
	}
	annotations := object.GetAnnotations()
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	if len(annotations) > 0 {
		manifest.SetAnnotations(annotations)
	}
	return manifest
}
