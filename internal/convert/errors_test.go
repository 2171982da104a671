// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// A file that the source would reject is an error that names the field.
func TestErrors(t *testing.T) {
	for name, tc := range map[string]struct{ source, text, problem string }{
		"ingress-nginx: no YAML":     {"ingressnginx", "a: [", "not a manifest: line 1"},
		"ingress-nginx: a text":      {"ingressnginx", "# x\n---\nwords", "not a manifest: must not be a string"},
		"ingress-nginx: no Ingress":  {"ingressnginx", "kind: Ingress\nmetadata: {name: a}\nspec: {rules: 5}", "Ingress default/a: spec.rules: must not be a number"},
		"Limitador: no list":         {"limitador", "a: b", "not a limits file of Limitador"},
		"Limitador: an unknown name": {"limitador", "- {namespace: a, max_value: 1, seconds: 1, varables: []}", `unknown field "[0].varables"`},
		"Limitador: no domain":       {"limitador", "- {max_value: 1, seconds: 1}", "[0].namespace: must not be empty"},
		"Limitador: negative":        {"limitador", "- {namespace: a, max_value: -1, seconds: 1}", "max_value: must not be a number -1"},
		"Limitador: no window":       {"limitador", "- {namespace: a, max_value: 1}", "[0].seconds: 0 is not positive"},
		"Kuadrant: no YAML":          {"kuadrant", "\t", "not a manifest: found character"},
		"Kuadrant: a broken policy":  {"kuadrant", "apiVersion: kuadrant.io/v1\nkind: RateLimitPolicy\nmetadata: {name: a}\nspec: []", "RateLimitPolicy default/a: spec: must not be an array"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := conversions[tc.source](t.Context(), []byte(tc.text))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.problem)))
		})
	}
}

// Conditions that would grow without end are lost, in little time.
func TestNestedConditions(t *testing.T) {
	g := NewWithT(t)
	condition := "descriptors[0].k0 == 'x'"
	for i := range 60 {
		condition = fmt.Sprintf("(%s %s descriptors[0].k%d == 'x')", condition, []string{"||", "&&"}[i%2], i+1)
	}
	policies, notes, err := conversions["limitador"](t.Context(), []byte(`- {namespace: a, max_value: 1, seconds: 60, conditions: ["`+condition+`"]}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(policies).To(BeEmpty())
	g.Expect(notes).To(ContainElement(And(HaveField("Loss", true), HaveField("Text", ContainSubstring("more than 1024 characters")))))
}

// A policy without limits is lost, and a route without rules has one for every path.
func TestSparseKuadrant(t *testing.T) {
	g := NewWithT(t)
	const route = "\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: a}\nspec: {}"
	const policy = "apiVersion: kuadrant.io/v1\nkind: RateLimitPolicy\nmetadata: {name: p}\nspec: {targetRef: {kind: HTTPRoute, name: a}, limits: {%s}}"
	_, notes, err := conversions["kuadrant"](t.Context(), []byte(fmt.Sprintf(policy, "")+route))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(notes).To(ContainElement(And(HaveField("Loss", true), HaveField("Text", "lost: is empty"))))
	policies, notes, err := conversions["kuadrant"](t.Context(), []byte(fmt.Sprintf(policy, "l: {rates: [{limit: 1, window: 1s}]}")+route))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(notes).NotTo(ContainElement(HaveField("Loss", true)))
	g.Expect(policies).To(HaveLen(1))
}

// A limit beyond the room of its Namespace is lost.
func TestLimitsWithoutRoom(t *testing.T) {
	g := NewWithT(t)
	var file strings.Builder
	for i := range 18 {
		fmt.Fprintf(&file, "- {namespace: edge, max_value: 1, seconds: %d}\n", i+1)
	}
	policies, notes, err := conversions["limitador"](t.Context(), []byte(file.String()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(policies).To(HaveLen(16))
	g.Expect(notes).To(ContainElement(And(HaveField("Loss", true), HaveField("Text", ContainSubstring("one request may match 16 policies with 64 limits")))))
}
