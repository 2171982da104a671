// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/convert"
)

// filesOf returns files named a.yaml, b.yaml and so on.
func filesOf(texts ...string) (files []convert.File) {
	for i, text := range texts {
		files = append(files, convert.File{Name: fmt.Sprintf("%c.yaml", 'a'+i), Data: []byte(text)})
	}
	return files
}

// All configurations of several files, of several documents and of objects of Kubernetes are converted.
func TestConfigurationsOfServices(t *testing.T) {
	const (
		edge  = "domain: edge\ndescriptors:\n- {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}\n"
		inner = "domain: inner\ndescriptors:\n- {key: user, rate_limit: {unit: minute, requests_per_unit: 7}}\n"
		toys  = "- {namespace: toys, max_value: 2, seconds: 30}\n"
		books = "- {namespace: books, max_value: 3, seconds: 30}\n"
	)
	indented := func(text, by string) string {
		return by + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+by) + "\n"
	}
	configMap := func(data ...string) string {
		var text strings.Builder
		text.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits, namespace: gateway}\ndata:\n")
		for i, value := range data {
			fmt.Fprintf(&text, "  %d.yaml: |\n%s", i, indented(value, "    "))
		}
		return text.String()
	}
	type do = func(context.Context, []convert.File, convert.Options) ([]*v1alpha1.RateLimitPolicy, []convert.Note, error)
	for name, tc := range map[string]struct {
		convert do
		files   []convert.File
		domains []string
		skipped string
	}{
		"two files":                   {convert.EnvoyRatelimit, filesOf(edge, inner), []string{"edge", "inner"}, ""},
		"two documents":               {convert.EnvoyRatelimit, filesOf("# x\n---\n" + edge + "---\n" + inner + "---\n"), []string{"edge", "inner"}, ""},
		"a ConfigMap":                 {convert.EnvoyRatelimit, filesOf(configMap(edge, inner)), []string{"edge", "inner"}, ""},
		"a list":                      {convert.EnvoyRatelimit, filesOf("apiVersion: v1\nkind: List\nitems:\n- " + strings.TrimSpace(indented(configMap(edge), "  "))), []string{"edge"}, ""},
		"a ConfigMap with other data": {convert.EnvoyRatelimit, filesOf(configMap(edge, "a: b")), []string{"edge"}, "a.yaml:9: ConfigMap gateway/limits, 1.yaml has no limits"},
		"another object":              {convert.EnvoyRatelimit, filesOf(edge, "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n"), []string{"edge"}, "b.yaml:1: Service x has no limits"},
		"limits files":                {convert.Limitador, filesOf(toys, books), []string{"toys", "books"}, ""},
		"limits in a ConfigMap":       {convert.Limitador, filesOf(configMap(toys + books)), []string{"toys", "books"}, ""},
		"the resource Limitador": {
			convert.Limitador, filesOf("apiVersion: limitador.kuadrant.io/v1alpha1\nkind: Limitador\nmetadata: {name: limitador}\nspec:\n  limits:\n" + indented(toys, "  ")),
			[]string{"toys"},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			policies, notes, err := tc.convert(t.Context(), tc.files, convert.Options{Namespace: "shop"})
			g.Expect(err).NotTo(HaveOccurred())
			var domains []string
			for _, p := range policies {
				domains = append(domains, p.Spec.Matches[0].Domain)
			}
			g.Expect(domains).To(Equal(tc.domains))
			g.Expect(notes).NotTo(ContainElement(HaveField("Loss", true)))
			var texts []string
			for _, n := range notes {
				texts = append(texts, n.String())
			}
			if tc.skipped == "" {
				g.Expect(texts).NotTo(ContainElement(ContainSubstring("has no limits")))
			} else {
				g.Expect(strings.Join(texts, "\n")).To(ContainSubstring(tc.skipped))
			}
		})
	}
}

// Notes and errors have the file, the line and the field.
func TestPlacesInFiles(t *testing.T) {
	g := NewWithT(t)
	const fine = "domain: a\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 1}}\n"
	_, notes, err := convert.EnvoyRatelimit(t.Context(), filesOf(fine, "# x\n---\ndomain: b\ndescriptors:\n- key: a\n  descriptors:\n  - key: a\n    rate_limit: {unit: day, requests_per_unit: 1}\n"), convert.Options{Namespace: "shop"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(notes).To(ContainElement(And(HaveField("Loss", true), HaveField("At", "b.yaml:7: descriptors[0].descriptors[0]"))))

	_, _, err = convert.EnvoyRatelimit(t.Context(), filesOf(fine, "domain: b\n---\n"+fine), convert.Options{Namespace: "shop"})
	g.Expect(err).To(MatchError(And(HavePrefix(`b.yaml:3: domain: "a" is also at a.yaml:1: domain`), ContainSubstring("MERGE_DOMAIN_CONFIG"))))
	_, _, err = convert.EnvoyRatelimit(t.Context(), filesOf(fine, "domain: b\ndescriptors:\n- key: a\n  rate_limit:\n    unit: century\n"), convert.Options{Namespace: "shop"})
	g.Expect(err).To(MatchError(HavePrefix(`b.yaml:5: descriptors[0].rate_limit.unit: "century" is not one of`)))
	_, _, err = convert.EnvoyRatelimit(t.Context(), filesOf("domain: b\ndescriptors:\n- key: a\n  ratelimit: {}\n"), convert.Options{Namespace: "shop"})
	g.Expect(err).To(MatchError(`a.yaml:4: unknown field "descriptors[0].ratelimit"`))
	_, _, err = convert.EnvoyRatelimit(t.Context(), filesOf(fine, "a: ["), convert.Options{Namespace: "shop"})
	g.Expect(err).To(MatchError(HavePrefix("b.yaml: not a configuration of envoyproxy/ratelimit: line 1")))

	_, notes, err = convert.Limitador(t.Context(), filesOf("- {namespace: a, max_value: 18446744073709551615, seconds: 1}\n- {namespace: a, max_value: 5, seconds: 60}\n"), convert.Options{Namespace: "shop"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(notes).To(ContainElement(And(
		HaveField("Loss", true), HaveField("At", "a.yaml:1: [0].max_value"), HaveField("Text", "lost: 18446744073709551615 exceeds the largest threshold, 1000000000000"),
	)))
}

// Aliases and merge keys are read as YAML has them, in any order with the fields that win over them.
func TestAliasesAndMergeKeys(t *testing.T) {
	g := NewWithT(t)
	policies, _, err := convert.EnvoyRatelimit(t.Context(), filesOf(`domain: d
descriptors:
- &base
  key: user
  value: alice
  rate_limit: &limit {unit: minute, requests_per_unit: 1_000}
- <<: *base
  value: bob
- value: carol
  <<: *base
- key: path
  rate_limit: *limit
`), convert.Options{Namespace: "shop"})
	g.Expect(err).NotTo(HaveOccurred())
	var values []string
	for _, p := range policies {
		values = append(values, p.Spec.Matches[0].Descriptors[0].Value)
		g.Expect(p.Spec.Limits[0].Threshold).To(Equal(int64(1000)))
	}
	g.Expect(values).To(Equal([]string{"alice", "bob", "carol", ""}))
}

// A YAML list among manifests, such as a patch of kustomize, is skipped and named. Notes and errors have the file and the line
// of the object's document.
func TestPlacesOfManifests(t *testing.T) {
	g := NewWithT(t)
	const ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: %s, namespace: shop, annotations: {nginx.ingress.kubernetes.io/limit-rps: \"%s\"}}\nspec: {rules: %s}\n"
	const rules = "[{host: shop.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]}}]"
	run := func(texts ...string) ([]*v1alpha1.RateLimitPolicy, []convert.Note, error) {
		return convert.IngressNginx(t.Context(), filesOf(texts...), convert.IngressNginxOptions{Namespace: "default", Replicas: 1})
	}
	policies, notes, err := run("- op: remove\n  path: /spec/tls\n", "# x\n---\n"+fmt.Sprintf(ingress, "a", "5", rules)+"---\n"+fmt.Sprintf(ingress, "b", "5", "[]"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(policies).To(HaveLen(1))
	g.Expect(notes).To(ContainElements(
		convert.Note{At: "a.yaml:1", Text: "skipped a YAML list, which is not a manifest"},
		And(HaveField("Loss", true), HaveField("At", "b.yaml:8: Ingress shop/b")),
	))
	_, _, err = run(fmt.Sprintf(ingress, "a", "5", rules), "kind: Ingress\nmetadata: {name: c}\nspec: 5\n")
	g.Expect(err).To(MatchError("b.yaml:1: Ingress default/c: spec: must not be a number"))
	_, _, err = run("# x\n---\na: [")
	g.Expect(err).To(MatchError(HavePrefix("a.yaml:3: not a manifest: line 1")))
}
