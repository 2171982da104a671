// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/weir-dev/weir/config/crd"
)

type schema = apiextensionsv1.JSONSchemaProps

// TestSchema checks the conventions of the generated schema: every field is described
// and bounded, and there are no floats, which clients round, and no booleans, which
// have no third value.
func TestSchema(t *testing.T) {
	t.Parallel()
	for _, definition := range definitions(t) {
		root := schemaOf(definition)
		for _, part := range []string{"spec", "status"} {
			props, found := root.Properties[part]
			NewWithT(t).Expect(found).To(BeTrue(), part)
			walk(part, &props, func(path string, s *schema) {
				t.Run(definition.Spec.Names.Kind+"/"+path, func(t *testing.T) {
					t.Parallel()
					checkField(NewWithT(t), path, s)
				})
			})
		}
	}
}

func checkField(g *WithT, path string, s *schema) {
	if !strings.HasSuffix(path, "[]") {
		g.Expect(s.Description).NotTo(BeEmpty(), "description")
		name := path[strings.LastIndex(path, ".")+1:]
		// The types of conditions and targets belong to Kubernetes and to the Gateway API.
		if !strings.Contains(path, "conditions[]") && !strings.Contains(path, "targetRefs[]") {
			g.Expect(s.Description).To(HavePrefix(name+" "), "a description begins with the name of the field")
			g.Expect(s.Description).To(HaveSuffix("."), "a description consists of sentences")
		}
	}
	switch s.Type {
	case "object":
		g.Expect(s.AdditionalProperties).To(BeNil(), "a map has no order and its keys no bounds")
	case "array":
		g.Expect(s.MaxItems).NotTo(BeNil(), "maxItems")
		g.Expect(s.XListType).NotTo(BeNil(), "x-kubernetes-list-type")
	case "string":
		bounded := s.MaxLength != nil || len(s.Enum) > 0 || s.Format == "date-time"
		g.Expect(bounded).To(BeTrue(), "maxLength, enum or format")
	case "integer":
		g.Expect(s.Format).To(Or(Equal("int32"), Equal("int64")))
		g.Expect(s.Minimum).NotTo(BeNil(), "minimum")
		if strings.HasPrefix(path, "spec") {
			g.Expect(s.Maximum).NotTo(BeNil(), "maximum")
		}
	default:
		g.Expect(s.Type).To(BeElementOf("object", "array", "string", "integer"), "no booleans, no floats, nothing untyped")
	}
}

func TestSchemaDefaults(t *testing.T) {
	t.Parallel()
	root := policySchema(t)
	var defaulted []string
	walk("", root, func(path string, s *schema) {
		if s.Default != nil {
			defaulted = append(defaulted, path+"="+string(s.Default.Raw))
		}
	})
	NewWithT(t).Expect(defaulted).To(ConsistOf(
		`.spec.mode="Enforce"`, `.spec.onMissingKey="Share"`, `.spec.counting="Admitted"`,
		`.spec.denyWhen="ThresholdExceeded"`, `.spec.failureMode="Open"`, `.status={"observedGeneration":-1}`,
	), "GitOps tools report any other default as a difference to the repository")
	for _, definition := range definitions(t) {
		status := schemaOf(definition).Properties["status"]
		NewWithT(t).Expect(string(status.Default.Raw)).To(Equal(`{"observedGeneration":-1}`), definition.Spec.Names.Kind)
	}
}

func TestSchemaListTypes(t *testing.T) {
	t.Parallel()
	types := map[string]string{}
	walk("", policySchema(t), func(path string, s *schema) {
		if s.Type == "array" {
			types[path] = *s.XListType + strings.Join(s.XListMapKeys, ",")
		}
	})
	NewWithT(t).Expect(types).To(Equal(map[string]string{
		".spec.denial.headers":                 "mapname",
		".spec.targetRefs":                     "atomic",
		".spec.matches":                        "atomic",
		".spec.matches[].headers":              "mapname",
		".spec.matches[].hosts":                "set",
		".spec.matches[].methods":              "set",
		".spec.matches[].paths":                "set",
		".spec.matches[].descriptors[].except": "set",
		".spec.matches[].queryParameters":      "mapname",
		".spec.matches[].descriptors":          "atomic",
		".spec.key":                            "atomic",
		".spec.exceptions.actions":             "set",
		".spec.limits":                         "mapname",
		".spec.limits[].blockDurations":        "atomic",
		".spec.overrides":                      "atomic",
		".spec.overrides[].keys":               "atomic",
		".spec.overrides[].groups":             "atomic",
		".spec.overrides[].cidrs":              "atomic",
		".spec.overrides[].limits":             "mapname",
		".status.conditions":                   "maptype",
	}))
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]struct {
		plural, short string
		columns       []string
	}{
		"RateLimitPolicy": {"ratelimitpolicies", "rlpol", []string{
			"Mode", "Limits", "Ready", "Enforced", "Wired", "In Force", "Reason", "Age",
		}},
		"RateLimitKeyGroup": {"ratelimitkeygroups", "rlkeys", []string{"Group", "Keys", "Ready", "Enforced", "Reason", "Age"}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			definition := definitionOf(t, kind)
			g.Expect(definition.Spec.Scope).To(Equal(apiextensionsv1.NamespaceScoped))
			g.Expect(definition.Spec.Names.Plural).To(Equal(want.plural))
			g.Expect(definition.Spec.Names.ShortNames).To(ConsistOf(want.short))
			g.Expect(definition.Spec.Names.Categories).To(ConsistOf("weir"))
			version := definition.Spec.Versions[0]
			g.Expect(version.Subresources.Status).NotTo(BeNil())
			var columns []string
			for _, column := range version.AdditionalPrinterColumns {
				columns = append(columns, column.Name)
			}
			g.Expect(columns).To(Equal(want.columns))
		})
	}
}

// walk calls visit for s and everything below it, in a fixed order.
func walk(path string, s *schema, visit func(path string, s *schema)) {
	visit(path, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		walk(path+"."+name, &property, visit)
	}
	if s.Items != nil {
		walk(path+"[]", s.Items.Schema, visit)
	}
}

// ruleMessages returns the messages of all CEL rules of the schema.
func ruleMessages(root *schema) []string {
	var messages []string
	walk("", root, func(_ string, s *schema) {
		for _, rule := range s.XValidations {
			messages = append(messages, rule.Message)
		}
	})
	return messages
}

func policySchema(tb testing.TB) *schema {
	tb.Helper()
	return schemaOf(definitionOf(tb, "RateLimitPolicy"))
}

func schemaOf(definition *apiextensionsv1.CustomResourceDefinition) *schema {
	return definition.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// definitionOf returns the definition of the kind.
func definitionOf(tb testing.TB, kind string) *apiextensionsv1.CustomResourceDefinition {
	tb.Helper()
	all := definitions(tb)
	i := slices.IndexFunc(all, func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Spec.Names.Kind == kind })
	if i < 0 {
		tb.Fatalf("no CRD of %s", kind)
	}
	return all[i]
}

func definitions(tb testing.TB) []*apiextensionsv1.CustomResourceDefinition {
	tb.Helper()
	all, err := crd.Definitions()
	if err != nil {
		tb.Fatal(err)
	}
	return all
}
