// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/convert"
)

// A configuration that the service rejects is rejected with the field.
func TestEnvoyRatelimitErrors(t *testing.T) {
	for name, tc := range map[string]struct{ config, problem string }{
		"no domain":             {"descriptors: [{key: a}]", "domain: must not be empty"},
		"no key":                {"domain: d\ndescriptors: [{value: a}]", "descriptors[0].key: must not be empty"},
		"no key, nested":        {"domain: d\ndescriptors: [{key: a, descriptors: [{value: b}]}]", "descriptors[0].descriptors[0].key"},
		"twice":                 {"domain: d\ndescriptors: [{key: a}, {key: a}]", `descriptors[1]: key "a" with value "" is defined twice`},
		"unknown unit":          {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: fortnight}}]", `descriptors[0].rate_limit.unit: "fortnight" is not one of`},
		"unlimited with a unit": {"domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, unit: day}}]", "descriptors[0].rate_limit.unit: must not be set"},
		"unknown field":         {"domain: d\ndescriptors: [{key: a, ratelimit: {}}]", `unknown field "descriptors[0].ratelimit"`},
		"negative":              {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: -1}}]", "descriptors[0].rate_limit.requests_per_unit: -1"},
		"no YAML":               {"\t", "not a configuration of envoyproxy/ratelimit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := convert.EnvoyRatelimit(t.Context(), []byte(tc.config), convert.Options{Namespace: "shop"})
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.problem)))
		})
	}
}

// The service reads texts as they are written, also without quotes.
func TestEnvoyRatelimitTexts(t *testing.T) {
	for written, text := range map[string]string{
		"404": "404", "010": "010", "1e3": "1e3", "true": "true", "yes": "yes", `"404"`: "404", "'a: b'": "a: b",
		"&a 7": "7", "null": "", "~": "", `""`: "",
	} {
		t.Run(written, func(t *testing.T) {
			g := NewWithT(t)
			policies, notes, err := convert.EnvoyRatelimit(t.Context(), []byte("domain: 5\ndescriptors:\n- key: 1\n  value: "+written+
				"\n  rate_limit: {unit: day, requests_per_unit: 3, name: on}\n"), convert.Options{Namespace: "shop"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(notes).NotTo(ContainElement(HaveField("Loss", true)))
			g.Expect(policies).To(HaveLen(1))
			match, limit := policies[0].Spec.Matches[0], policies[0].Spec.Limits[0]
			g.Expect(match.Domain).To(Equal("5"))
			g.Expect(match.Descriptors).To(HaveExactElements(v1alpha1.DescriptorMatch{Key: "1", Value: text}))
			g.Expect(limit.Name).To(Equal("on"))
			g.Expect(limit.Threshold).To(BeEquivalentTo(3))
		})
	}
}

// A limit whose policy would be invalid is lost, and the others are converted.
func TestEnvoyRatelimitInvalidPolicies(t *testing.T) {
	limit := "rate_limit: {unit: day, requests_per_unit: 3}"
	deep := "key: k16, " + limit
	for i := 15; i >= 0; i-- {
		deep = fmt.Sprintf("key: k%d, descriptors: [{%s}]", i, deep)
	}
	for name, tc := range map[string]struct{ descriptor, problem string }{
		"a long key":    {"key: " + strings.Repeat("k", 256) + ", " + limit, "spec.matches[0].descriptors[0].key: Too long"},
		"a long value":  {"key: k, value: " + strings.Repeat("v", 256) + ", " + limit, "spec.matches[0].descriptors[0].value: Too long"},
		"many entries":  {deep, "spec.matches[0].descriptors: Too many: 17"},
		"a long prefix": {"key: k, value: " + strings.Repeat("v", 1024) + "*, " + limit, "characters, at most 1024 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			policies, notes, err := convert.EnvoyRatelimit(t.Context(),
				[]byte("domain: d\ndescriptors: [{"+tc.descriptor+"}, {key: fine, "+limit+"}]"), convert.Options{Namespace: "shop"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(policies).To(HaveExactElements(HaveField("Name", "d-fine")))
			g.Expect(notes).To(ContainElement(And(HaveField("Loss", true), HaveField("Text", ContainSubstring(tc.problem)))))
		})
	}
}
