// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package validate_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/validate"
)

const login = `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata:
  name: login
  namespace: shop
spec:
  matches:
  - hosts: [shop.example]
  limits:
  - name: burst
    algorithm: SlidingLog
    threshold: 5
    window: 1m
`

const granted = `---
apiVersion: v1
kind: Namespace
metadata:
  name: shop
  annotations: {ratelimit.weir.dev/hosts: "shop.example"}
`

func edited(old, with string) string { return strings.Replace(login, old, with, 1) }

// findings returns the lines of the text for files a.yaml, b.yaml and so on, without the last one.
func findings(t *testing.T, files ...string) []string {
	t.Helper()
	g, sources := NewWithT(t), []validate.Source{}
	for i, text := range files {
		sources = append(sources, validate.Source{Name: string(rune('a'+i)) + ".yaml", Data: []byte(text)})
	}
	var out bytes.Buffer
	g.Expect(validate.Run(t.Context(), sources, "default").Write(&out, validate.FormatText, false)).To(Succeed())
	lines := strings.Split(out.String(), "\n")
	return lines[:len(lines)-2]
}

func TestFindings(t *testing.T) {
	const unchecked = "tenancy of Namespace shop is not checked: add its manifest to the files"
	for name, tc := range map[string]struct {
		files []string
		want  []string // the beginning of each line
	}{
		"a valid policy": {[]string{login, granted}, nil},
		"an unknown field": {
			[]string{edited("threshold:", "treshold:")},
			[]string{
				"a.yaml:10:5: error: shop/login: spec.limits[0].threshold: Required value",
				"a.yaml:12:5: error: shop/login: spec.limits[0].treshold: Forbidden: unknown field; did you mean threshold?",
			},
		},
		"an unknown field of the metadata": {
			[]string{edited("  name: login", "  name: login\n  anotations: {}")},
			[]string{"a.yaml:5:3: error: shop/login: metadata.anotations: Forbidden: unknown field; did you mean annotations?"},
		},
		"a value of an enum": {
			[]string{edited("SlidingLog", "slidinglog")},
			[]string{`a.yaml:11:5: error: shop/login: spec.limits[0].algorithm: Unsupported value: "slidinglog": supported values: "FixedWindow", ` +
				`"SlidingLog", "SlidingWindow", "TokenBucket", "GCRA", "Suppressed", "Concurrency"; did you mean SlidingLog?`},
		},
		"nothing close": {
			[]string{edited("SlidingLog", "x")},
			[]string{`a.yaml:11:5: error: shop/login: spec.limits[0].algorithm: Unsupported value: "x": supported values: "FixedWindow", ` +
				`"SlidingLog", "SlidingWindow", "TokenBucket", "GCRA", "Suppressed"`},
		},
		"a kind": {
			[]string{edited("RateLimitPolicy", "RateLimitsPolicy")},
			[]string{`a.yaml:2:1: error: apiVersion "ratelimit.weir.dev/v1alpha1", kind "RateLimitsPolicy": this release supports ` +
				"ratelimit.weir.dev/v1alpha1, RateLimitPolicy, RateLimitKeyGroup and RateLimitException; did you mean RateLimitPolicy?"},
		},
		"what does not compile": {
			[]string{granted + "---\n" + edited("shop.example]", "shop.example]\n    paths: [/a//b]")},
			[]string{"a.yaml:16:13: error: shop/login: spec.matches[0].paths[0]: Invalid value"},
		},
		"a host that is not granted": {
			[]string{edited("shop.example", "other.example"), granted},
			[]string{"a.yaml:8:13: error: shop/login: spec.matches[0].hosts[0]: Forbidden: other.example is not granted to the Namespace " +
				"by its annotation ratelimit.weir.dev/hosts"},
		},
		"no Namespace":                        {[]string{login, edited("login", "b") + "  mode: Disabled\n"}, []string{unchecked}},
		"a policy of a route needs no grant":  {[]string{strings.Replace(granted, "shop.example", "x", 1), edited("  matches:", "  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]\n  matches:")}, nil},
		"a route, its Namespace is missing":   {[]string{edited("  matches:", "  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]\n  matches:")}, nil},
		"a target that is misspelled":         {[]string{granted, edited("  matches:", "  targetRefs: [{group: gateway.networking.k8s.io, kind: HttpRoute, name: shop}]\n  matches:")}, []string{"b.yaml:7:3: error: shop/login: spec.targetRefs: Invalid value: targetRefs must have the group gateway.networking.k8s.io and the kind Gateway, HTTPRoute or GRPCRoute"}},
		"a policy that needs no grant":        {[]string{edited("  matches:\n  - hosts: [shop.example]\n", "")}, nil},
		"grants that differ":                  {[]string{login, granted, strings.Replace(granted, "shop.example", "x", 1)}, []string{"c.yaml:5:3: error: metadata.annotations: Namespace shop grants other hosts or domains at b.yaml:5:3"}},
		"one Namespace twice":                 {[]string{login, granted, granted}, nil},
		"one policy in two files":             {[]string{granted, login, "# again\n" + login}, []string{"c.yaml:5:3: error: shop/login: metadata.name: policy shop/login is also defined at b.yaml:4:3"}},
		"one policy twice in a file":          {[]string{granted, login + "---\n" + login}, []string{"b.yaml:18:3: error: shop/login: metadata.name: policy shop/login is also defined at b.yaml:4:3"}},
		"a catch-all":                         {[]string{edited("hosts: [shop.example]", `paths: ["/*"]`)}, []string{"a.yaml:8:5: warning: shop/login: spec.matches[0] is a catch-all match: it holds for every request; mode Shadow shows what it would deny", unchecked}},
		"overlaps across files":               {[]string{granted, login, edited("login", "other")}, []string{"b.yaml:8:5: warning: shop/login: spec.matches[0]: same match as shop/other; a request must pass every policy", "c.yaml:8:5: warning: shop/other: spec.matches[0]: same match as shop/login; a request must pass every policy"}},
		"a limit that another makes useless":  {[]string{granted, login + "  - {name: b, algorithm: SlidingLog, threshold: 9, window: 1m}\n"}, []string{"b.yaml:14:5: warning: shop/login: spec.limits[1] (b) is ineffective: spec.limits[0] (burst) is always tighter"}},
		"other kinds":                         {[]string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\n# nothing\n"}, nil},
		"an item of a list":                   {[]string{granted, "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(edited("5", "0")), "\n", "\n  ")}, []string{"b.yaml:15:7: error: shop/login: items[0]: spec.limits[0].threshold: "}},
		"through an alias":                    {[]string{granted, edited("  - name: burst\n", "  - &l\n    name: burst\n") + "  - *l\n"}, []string{"b.yaml:15:5: error: shop/login: spec.limits[1]: Duplicate value: "}},
		"a file with one error and one valid": {[]string{granted, "a: [\n---\n" + edited("5", "0")}, []string{"b.yaml:1:1: error: did not find ", "b.yaml:14:5: error: shop/login: spec.limits[0].threshold: "}},
	} {
		t.Run(name, func(t *testing.T) {
			g, got := NewWithT(t), findings(t, tc.files...)
			g.Expect(got).To(HaveLen(len(tc.want)), strings.Join(got, ""))
			for i, line := range got {
				g.Expect(line).To(HavePrefix(tc.want[i]))
			}
		})
	}
}

// Of two policies with the same name, the first counts.
func TestDuplicatesAreLeftOut(t *testing.T) {
	g := NewWithT(t)
	result := validate.Run(t.Context(), []validate.Source{
		{Name: "a.yaml", Data: []byte(login)}, {Name: "b.yaml", Data: []byte(edited("threshold: 5", "threshold: 6"))},
	}, "default")
	g.Expect(result.Policies).To(HaveLen(1))
	g.Expect(result.Policies[0].File).To(Equal("a.yaml"))
	g.Expect(result.Policies[0].Plan.Limits[0].Threshold).To(Equal(int64(5)))
}

// A hostile file is one finding or an error, in a moment.
func TestHostileFiles(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 {}\n")
	for i := range 12 {
		fmt.Fprintf(&bomb, "a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	for name, tc := range map[string]struct{ text, want string }{
		"aliases of aliases": {bomb.String(), "a.yaml:1:1: error: document contains excessive aliasing"},
		"binary":             {"a: 1\nb: \x00\x01", "a.yaml:2:4: error: not a text file: contains a zero byte"},
		"another encoding":   {"a: 1\nb: \xff", "a.yaml:2:4: error: not a text file in UTF-8"},
		"deep nesting":       {strings.Repeat("[", 200_000), "a.yaml:1:1: error: "},
		"a key twice":        {"a: 1\na: 2", `a.yaml:2:1: error: key "a" already set in map`},
		"no object":          {"- a", "a.yaml:1:1: error: must be an object"},
		"an unknown anchor":  {"a: *b", "a.yaml:1:1: error: unknown anchor 'b' referenced"},
		"control characters": {"apiVersion: \"\\e[31m\\n\"", "a.yaml:1:1: error: apiVersion \"\\x1b[31m\\n\" and kind \"\" do not name a resource"},
	} {
		t.Run(name, func(t *testing.T) {
			g, got := NewWithT(t), findings(t, tc.text)
			g.Expect(got).To(HaveLen(1), strings.Join(got, ""))
			g.Expect(got[0]).To(HavePrefix(tc.want))
		})
	}
}

func TestSamplesAreValid(t *testing.T) {
	g := NewWithT(t)
	sources, err := validate.Load([]string{"../../config/samples"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	result := validate.Run(t.Context(), sources, "default")
	g.Expect(result.Findings).To(BeEmpty())
	g.Expect(result.NotChecked).To(BeEmpty(), "their Namespace is a sample, and grants what they match")
	g.Expect(len(result.Policies)).To(BeNumerically(">=", 5))
}

func TestFormats(t *testing.T) {
	g := NewWithT(t)
	result := validate.Run(t.Context(), []validate.Source{{Name: "a:b,c%.yaml", Data: []byte(edited("SlidingLog", "slidinglog%\\n"))}, {
		Name: "b.yaml", Data: []byte(edited("login", "other") + "  - {name: b, algorithm: SlidingLog, threshold: 9, window: 1m}\n"),
	}}, "default")
	write := func(format validate.Format) string {
		var out bytes.Buffer
		g.Expect(result.Write(&out, format, true)).To(Succeed())
		return out.String()
	}
	g.Expect(write(validate.FormatGitHub)).To(And(
		HavePrefix("::error file=a%3Ab%2Cc%25.yaml,line=11,col=5::shop/login: spec.limits[0].algorithm: Unsupported value: \"slidinglog%25"),
		ContainSubstring("\n::warning file=b.yaml,line=14,col=5::shop/other: spec.limits[1] (b) is ineffective"),
		HaveSuffix("\n::notice::tenancy of Namespace shop is not checked: add its manifest to the files\n")))
	g.Expect(write(validate.FormatText)).To(And(
		HavePrefix("a:b,c%.yaml:11:5: \x1b[31merror\x1b[0m: shop/login"), HaveSuffix("\n1 error, 1 warning, 1 valid policy\n")))
	var out bytes.Buffer
	g.Expect(validate.Run(t.Context(), []validate.Source{{Name: "b.yaml", Data: []byte(login + "  modes: Shadow\n")}}, "default").
		Write(&out, validate.FormatJSON, true)).To(Succeed())
	g.Expect(out.String()).To(MatchJSON(`{"valid": 0, "keyGroups": 0, "exceptions": 0, "errors": 1, "warnings": 0, "tenancyNotChecked": [], "findings": [{
		"file": "b.yaml", "line": 14, "column": 3, "severity": "error", "policy": "shop/login", "field": "spec.modes",
		"message": "spec.modes: Forbidden: unknown field", "suggestion": "mode"}]}`))
	out.Reset()
	g.Expect(validate.Run(t.Context(), nil, "default").Write(&out, validate.FormatJSON, false)).To(Succeed())
	g.Expect(out.String()).To(MatchJSON(`{"valid": 0, "keyGroups": 0, "exceptions": 0, "errors": 0, "warnings": 0, "tenancyNotChecked": [], "findings": []}`))
}

func TestLoad(t *testing.T) {
	g, dir := NewWithT(t), t.TempDir()
	for name, text := range map[string]string{
		"b.yml": "b", "a.json": "a", "below/c.yaml": "c", "kustomization.yaml": "no", "README.md": "no", ".hidden.yaml": "no", ".git/x.yaml": "no",
	} {
		g.Expect(os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	load := func(paths ...string) (string, error) {
		sources, err := validate.Load(paths, strings.NewReader("in"))
		texts := make([]string, len(sources))
		for i, s := range sources {
			texts[i] = string(s.Data)
		}
		return strings.Join(texts, " "), err
	}
	g.Expect(load(dir, "-", dir+"/./b.yml", "-")).To(Equal("a b c in"))
	g.Expect(load(dir + "/kustomization.yaml")).To(Equal("no"))
	_, err := load(dir+"/none", dir+"/nor")
	g.Expect(err).To(MatchError(And(ContainSubstring("none: no such file"), ContainSubstring("nor: no such file"))))
	g.Expect(os.WriteFile(filepath.Join(dir, "large.yaml"), make([]byte, 10<<20), 0o600)).To(Succeed())
	_, err = load(dir)
	g.Expect(err).To(MatchError(ContainSubstring("large.yaml: is larger than 8 MiB; divide it into several files")))
}
