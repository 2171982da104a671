// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

const good = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: NAME, namespace: shop}
spec:
  limits:
  - {name: burst, algorithm: SlidingLog, threshold: 5, window: 1m}
`

func named(name string) string { return strings.Replace(good, "NAME", name, 1) }

func TestRead(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"one document":              {named("a"), []string{"shop/a"}},
		"several, with empty ones":  {"# nothing\n---" + named("a") + "---\n---" + named("b"), []string{"shop/a", "shop/b"}},
		"no namespace":              {strings.Replace(named("a"), ", namespace: shop", "", 1), []string{"default/a"}},
		"other groups skipped":      {"apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---" + named("a"), []string{"shop/a"}},
		"JSON":                      {`{"apiVersion":"ratelimit.weir.dev/v1alpha1","kind":"RateLimitPolicy","metadata":{"name":"j"},"spec":{"limits":[{"name":"l","algorithm":"FixedWindow","threshold":1,"window":"1s"}]}}`, []string{"default/j"}},
		"a list as kubectl gets it": {"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(named("a")), "\n", "\n  "), []string{"shop/a"}},
		"nothing at all":            {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			policies, err := testpolicy.Read(t.Context(), []byte(tc.text))
			g.Expect(err).NotTo(HaveOccurred())
			var got []string
			for _, p := range policies {
				got = append(got, p.Namespace+"/"+p.Name)
				g.Expect(p.Spec.Mode).To(Equal(v1alpha1.ModeEnforce), "defaults are filled in")
			}
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

func TestReadRejects(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"text that is not YAML":   {"a: [", []string{"document 1"}},
		"a list":                  {"- a", []string{"document 1"}},
		"no kind":                 {"apiVersion: v1", []string{`kind "" do not name`}},
		"another version":         {strings.Replace(named("a"), "v1alpha1", "v9", 1), []string{"v9", "this release supports"}},
		"another kind":            {strings.Replace(named("a"), "RateLimitPolicy", "RateLimit", 1), []string{`kind "RateLimit"`}},
		"a member twice":          {named("a") + "  limits: []\n", []string{"already set"}},
		"an unknown member":       {named("a") + "  limit: []\n", []string{"shop/a", "spec.limit", "unknown field"}},
		"a bad name":              {named("A_b"), []string{"metadata.name", "A_b"}},
		"no metadata":             {strings.Replace(named("a"), "metadata", "meta", 1), []string{"metadata.name"}},
		"a value out of bounds":   {strings.Replace(named("a"), "threshold: 5", "threshold: 0", 1), []string{"spec.limits[0].threshold"}},
		"a value of a wrong type": {strings.Replace(named("a"), "threshold: 5", "threshold: many", 1), []string{"spec.limits[0].threshold"}},
		"a missing member":        {strings.Replace(named("a"), "threshold: 5, ", "", 1), []string{"spec.limits[0].threshold", "Required"}},
		"neither of two members":  {strings.Replace(named("a"), ", window: 1m", "", 1), []string{"spec.limits[0]", "exactly one of window and calendar"}},
		"a broken rule":           {named("a") + "  counting: Attempts\n" + "  key:\n  - type: Header\n", []string{"spec.key[0]", "header must be set"}},
		"two limits of one name":  {named("a") + "  - {name: burst, algorithm: FixedWindow, threshold: 5, window: 1m}\n", []string{"spec.limits[1]", "Duplicate"}},
		"a fraction of a hit":     {strings.Replace(named("a"), "threshold: 5", "threshold: 1.5", 1), []string{`spec.limits[0].threshold: Invalid value: "float64"`}},
		"a fraction of an hour":   {strings.Replace(named("a"), "1m", "1.5h", 1), []string{`spec.limits[0].window: Invalid value: "1.5h": 1.5h: write 1h30m`}},
		"days":                    {strings.Replace(named("a"), "1m", "7d", 1), []string{`spec.limits[0].window: Invalid value: "7d": 7d: write 168h`}},
		"every bad document": {
			strings.Replace(named("a"), "1m", "1y", 1) + "---" + named("b") + "---" + strings.Replace(named("c"), "5", "-5", 1),
			[]string{"document 1: shop/a: spec.limits[0].window", "document 3: shop/c: spec.limits[0].threshold"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := testpolicy.Read(t.Context(), []byte(tc.text))
			g.Expect(err).To(HaveOccurred())
			for _, want := range tc.want {
				g.Expect(err.Error()).To(ContainSubstring(want))
			}
		})
	}
}

// The position of a field is the position of its name, or of the field around it.
func TestPositions(t *testing.T) {
	g := NewWithT(t)
	file := policyfile.Parse(t.Context(), []byte("# one\n---\n# two\n---"+named("a")+"---\r\n"+named("b")), policyfile.DefaultNamespace)
	g.Expect(file.Problems).To(BeEmpty())
	for field, want := range map[string]policyfile.Position{
		"":                       {Line: 5, Column: 1},
		"spec":                   {Line: 8, Column: 1},
		"spec.limits[0].window":  {Line: 10, Column: 56},
		"spec.limits[0].burst":   {Line: 10, Column: 5},
		"spec.limits[7]":         {Line: 9, Column: 3},
		"spec.mode":              {Line: 8, Column: 1},
		"metadata.labels[a.b/c]": {Line: 7, Column: 1},
	} {
		g.Expect(file.Policies[0].Position(field)).To(Equal(want), field)
		want.Line += 8
		g.Expect(file.Policies[1].Position(field)).To(Equal(want), field)
	}
}

// The field of an alias is where the anchor is.
func TestPositionThroughAnAlias(t *testing.T) {
	g := NewWithT(t)
	text := strings.Replace(named("a"), "namespace: shop}", "labels: &m {\n  x: v},\n annotations: *m}", 1)
	file := policyfile.Parse(t.Context(), []byte(text), policyfile.DefaultNamespace)
	g.Expect(file.Problems).To(BeEmpty())
	g.Expect(file.Policies[0].Position("metadata.annotations.x")).To(Equal(policyfile.Position{Line: 5, Column: 3}))
	g.Expect(file.Policies[0].Position("metadata.annotations.z")).To(Equal(policyfile.Position{Line: 6, Column: 2}))
}

func FuzzRead(f *testing.F) {
	f.Add(named("a"))
	f.Add("apiVersion: v1\nkind: List\nitems: [1, {}, null]")
	f.Add("---\n---\n{}\n--- x")
	f.Fuzz(func(t *testing.T, text string) {
		policies, err := testpolicy.Read(t.Context(), []byte(text))
		if err == nil {
			for _, p := range policies {
				if p.Name == "" || len(p.Spec.Limits) == 0 {
					t.Errorf("accepted %+v", p)
				}
			}
		}
	})
}
