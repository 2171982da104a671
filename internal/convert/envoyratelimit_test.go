// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
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
		"an empty replaces":     {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, replaces: [{}]}}]", "descriptors[0].rate_limit.replaces[0].name: must not be empty"},
		"replaces itself":       {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, name: x, replaces: [{name: x}]}}]", `descriptors[0].rate_limit.replaces[0].name: "x" is the limit itself`},
		"a text as a number":    {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: many}}]", "descriptors.rate_limit.requests_per_unit: must not be a string"},
		"a field twice":         {"domain: d\ndomain: e", `mapping key "domain" already defined`},
		"no YAML":               {"\t", "not a configuration of envoyproxy/ratelimit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := convert.EnvoyRatelimit(t.Context(), fileOf([]byte(tc.config)), convert.Options{Namespace: "shop"})
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
			policies, notes, err := convert.EnvoyRatelimit(t.Context(), fileOf([]byte("domain: 5\ndescriptors:\n- key: 1\n  value: "+written+
				"\n  rate_limit: {unit: day, requests_per_unit: 3, name: on}\n")), convert.Options{Namespace: "shop"})
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
				fileOf([]byte("domain: d\ndescriptors: [{"+tc.descriptor+"}, {key: fine, "+limit+"}]")), convert.Options{Namespace: "shop"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(policies).To(HaveExactElements(HaveField("Name", "d-fine")))
			g.Expect(notes).To(ContainElement(And(HaveField("Loss", true), HaveField("Text", ContainSubstring(tc.problem)))))
		})
	}
}

// erlFile is a file of envoyproxy/ratelimit with one limit for each descriptor.
func erlFile(descriptors ...string) []byte {
	var text strings.Builder
	text.WriteString("domain: edge\ndescriptors:\n")
	for _, d := range descriptors {
		text.WriteString("- {" + d + ", rate_limit: {unit: hour, requests_per_unit: 10}}\n")
	}
	return []byte(text.String())
}

// numbered returns n texts that contain the numbers from 10 on.
func numbered(n int, format string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(format, 10+i))
	}
	return all
}

// Keys without values, prefixes, and a default beside many values need no expression: nothing is lost, and a call with a
// descriptor for each of seven limits is decided by all of them.
func TestEnvoyRatelimitWithoutExpressions(t *testing.T) {
	for name, tc := range map[string]struct {
		file     []byte
		policies int
		call     []string // the descriptors of one call, each for one policy
	}{
		"seven keys":                 {erlFile(numbered(7, "key: k%d")...), 7, numbered(7, "k%d=v")},
		"prefixes and a default":     {erlFile(append(numbered(12, "key: path, value: /api/v1/%d*"), "key: path")...), 13, []string{"path=/api/v1/10/x", "path=/api/v1/21", "path=/other"}},
		"many values and a default":  {erlFile(append(numbered(64, "key: tenant, value: customer-%d-production"), "key: tenant")...), 65, []string{"tenant=customer-73-production", "tenant=other", "tenant="}},
		"prefixes within prefixes":   {erlFile("key: p, value: ab*", "key: p, value: a*", "key: p, value: abc"), 3, []string{"p=abd", "p=ac", "p=abc"}},
		"a pattern for every value":  {erlFile("key: p, value: ab*", `key: p, value: "*"`), 2, []string{"p=abd", "p=ac"}},
		"a default without a chance": {erlFile(`key: p, value: "*"`, "key: p"), 1, []string{"p=x"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			policies, notes, err := convert.EnvoyRatelimit(t.Context(), fileOf(tc.file), convert.Options{Namespace: "shop"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(notes).NotTo(ContainElement(HaveField("Loss", true)))
			g.Expect(policies).To(HaveLen(tc.policies))
			for _, p := range policies {
				g.Expect(p.Spec.Matches).To(HaveExactElements(HaveField("When", BeEmpty())), p.Name)
			}
			d := decideAll(t, policies, tc.call)
			g.Expect(d.Reason).To(Equal(limiter.ReasonAllowed))
			g.Expect(d.Limits).To(HaveLen(len(tc.call)))
			g.Expect(decideAll(t, policies, numbered(1, tc.call[0]+",more=%d")).Limits).To(BeEmpty(), "a descriptor with another entry")
		})
	}
}

// decideAll decides one call with the descriptors, each "key=value" entries that are separated by commas.
func decideAll(t *testing.T, policies []*v1alpha1.RateLimitPolicy, descriptors []string) *limiter.Decision {
	t.Helper()
	a := plan.Attributes{Domain: "edge"}
	for _, text := range descriptors {
		var d plan.Descriptor
		for entry := range strings.SplitSeq(text, ",") {
			key, value, _ := strings.Cut(entry, "=")
			d = append(d, plan.Entry{Key: key, Value: value})
		}
		a.Descriptors = append(a.Descriptors, d)
	}
	decision, err := newEngine(t, policies, &modelStore{now: time.Unix(1_900_000_000, 0)}).Decide(t.Context(), &limiter.Check{Cost: 1, Attributes: a})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return decision
}

// What an entry has no room for, or cannot compare, stays an expression.
func TestEnvoyRatelimitWithExpressions(t *testing.T) {
	g := NewWithT(t)
	file := erlFile(append(numbered(70, "key: tenant, value: t%d"), "key: tenant", "key: p, value: a*b", "key: p, value: a*")...)
	policies, notes, err := convert.EnvoyRatelimit(t.Context(), fileOf(file), convert.Options{Namespace: "shop"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(notes).NotTo(ContainElement(HaveField("Loss", true)))
	whens := map[string]string{}
	for _, p := range policies {
		if when := p.Spec.Matches[0].When; when != "" {
			whens[p.Name] = when
		}
	}
	const pattern = `descriptor["p"].matches("(?s)^a.*b$")`
	g.Expect(whens).To(Equal(map[string]string{
		"edge-tenant": `!(descriptor["tenant"] in ["t74", "t75", "t76", "t77", "t78", "t79"])`,
		"edge-p-a-b":  pattern, "edge-p-a": "!" + pattern,
	}))
	g.Expect(decideAll(t, policies, []string{"tenant=t10", "tenant=t79", "tenant=t80", "p=axb", "p=axc"}).Limits).To(HaveLen(5))
}
