// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/weir-dev/weir/config/crd"
)

// Decoding keeps what this release knows, and notes the rest; encoding leaves the notes out.
func TestFieldsOfALaterRelease(t *testing.T) {
	g := NewWithT(t)
	policy := &RateLimitPolicy{}
	g.Expect(json.Unmarshal([]byte(`{"metadata": {"name": "p", "metaOfNext": 1}, "spec": {"next": {"a": 1}, "mode": "Trial",
		"matches": [{"hosts": ["a.example"], "onlyMethods": ["POST"]}], "matches": [{"hosts": ["b.example"], "onlyMethods": ["GET"]}],
		"limits": [{"name": "a", "algorithm": "Leaky", "threshold": 1, "window": "1m", "calendar": {"period": "Year"}}],
		"exceptions": {"actions": ["Limit", "Raise"]}}}`), policy)).To(Succeed())
	g.Expect(policy.Spec.Unsupported).To(ConsistOf(
		"next: unknown field", "matches[0].onlyMethods: unknown field", `mode: unknown value "Trial"`,
		`limits[0].algorithm: unknown value "Leaky"`, `limits[0].calendar.period: unknown value "Year"`,
		`exceptions.actions[1]: unknown value "Raise"`))
	g.Expect(policy.Spec.Matches[0].Hosts).To(Equal([]string{"b.example"}))
	encoded, err := json.Marshal(policy)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.ToLower(string(encoded))).NotTo(ContainSubstring("unsupported"))
	g.Expect(json.Unmarshal([]byte(`{"spec": {"mode": "Shadow", "exceptions": {"actions": []}, "limits": []}}`), policy)).To(Succeed())
	g.Expect(policy.Spec.Unsupported).To(BeEmpty(), "it is of the last object that was decoded")

	group := &RateLimitKeyGroup{}
	g.Expect(json.Unmarshal([]byte(`{"spec": {"group": "a", "keys": ["Enforce", "b"], "until": "tomorrow"}}`), group)).To(Succeed())
	g.Expect(group.Spec.Unsupported).To(Equal([]string{"until: unknown field"}))
	exception := &RateLimitException{}
	g.Expect(json.Unmarshal([]byte(`{"spec": {"policy": "p", "action": "Deny", "limits": [{"name": "a", "percent": 2}]}}`), exception)).To(Succeed())
	g.Expect(exception.Spec.Unsupported).To(ConsistOf("limits[0].percent: unknown field", `action: unknown value "Deny"`))

	g.Expect(json.Unmarshal([]byte(`{"spec": {"limits": 1}}`), policy)).To(MatchError(ContainSubstring("limits")))
}

// The enumerations are the ones of the schema.
func TestEnumerationsAreThoseOfTheSchema(t *testing.T) {
	g := NewWithT(t)
	definitions, err := crd.Definitions()
	g.Expect(err).NotTo(HaveOccurred())
	inSchema := map[string]bool{}
	var visit func(s *apiextensionsv1.JSONSchemaProps)
	visit = func(s *apiextensionsv1.JSONSchemaProps) {
		if s.Type == "string" && len(s.Enum) > 0 {
			var values []string
			for _, value := range s.Enum {
				values = append(values, strings.Trim(string(value.Raw), `"`))
			}
			slices.Sort(values)
			inSchema[strings.Join(values, " ")] = true
		}
		for _, property := range s.Properties {
			visit(&property)
		}
		if s.Items != nil {
			visit(s.Items.Schema)
		}
	}
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
			visit(&spec)
		}
	}
	known := map[string]bool{}
	for _, values := range enumerations {
		known[strings.Join(slices.Sorted(slices.Values(values)), " ")] = true
	}
	g.Expect(slices.Sorted(maps.Keys(known))).To(Equal(slices.Sorted(maps.Keys(inSchema))))
}
