// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/cmd/kubectl-weir/policies"
)

// edited writes the sample policies with the replacements to a folder. Limits of ten seconds become limits of an hour, so
// that no counter ends during a test on a busy machine.
func edited(t *testing.T, replacements ...string) (folder string) {
	t.Helper()
	g, folder := NewWithT(t), t.TempDir()
	files, err := filepath.Glob("../../config/samples/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	changed := len(replacements) == 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		lasting := strings.ReplaceAll(string(text), "window: 10s", "window: 1h")
		after := strings.NewReplacer(replacements...).Replace(lasting)
		changed = changed || after != lasting
		g.Expect(os.WriteFile(filepath.Join(folder, filepath.Base(file)), []byte(after), 0o600)).To(Succeed())
	}
	g.Expect(changed).To(BeTrue(), "nothing was replaced")
	return folder
}

func (s *instance) diff(args ...string) (code int, out, complaint string) {
	s.t.Helper()
	return command(s.t, append(append([]string{"diff"}, s.flags...), args...)...)
}

func TestDiff(t *testing.T) {
	g, s := NewWithT(t), start(t)
	code, out, complaint := s.diff("-f", edited(t))
	g.Expect(code).To(Equal(0), complaint)
	g.Expect(out).To(ContainSubstring("shop/burst: no difference\n"))

	s.succeed("block", "burst", "192.0.2.9", "--for", "10m")
	lower := edited(t, "threshold: 3", "threshold: 2", "name: burst\n", "name: burst\n")
	code, out, complaint = s.diff("-f", lower)
	g.Expect(code).To(Equal(1), complaint)
	g.Expect(complaint).To(BeEmpty())
	g.Expect(out).To(And(
		MatchRegexp(`(?m)^shop/burst:\n  limits\[short\]\.threshold   3 -> 2\n  limit short   keeps its counters\n`),
		MatchRegexp(`(?m)^  \d+ listed keys checked, 0 over at once; other keys are unknown\.$`)))

	code, out, _ = s.diff("-f", lower, "-o", "json")
	g.Expect(code).To(Equal(1))
	got := &policies.Differences{}
	g.Expect(json.Unmarshal([]byte(out), got)).To(Succeed())
	g.Expect(got.IsDifferent()).To(BeTrue())

	bare := filepath.Join(t.TempDir(), "bare.yaml")
	g.Expect(os.WriteFile(bare, []byte(`{apiVersion: ratelimit.weir.dev/v1alpha1, kind: RateLimitPolicy, metadata: {name: bare},
		spec: {limits: [{name: l, algorithm: FixedWindow, threshold: 1, window: 1s}]}}`), 0o600)).To(Succeed())
	code, out, _ = s.diff("-f", bare)
	g.Expect(code).To(Equal(1))
	g.Expect(out).To(Equal("shop/bare: new\n"), "in the Namespace of -n")

	renamed := edited(t, "name: burst\n", "name: another\n")
	code, out, _ = s.diff("-f", renamed)
	g.Expect(code).To(Equal(1))
	g.Expect(out).To(ContainSubstring("shop/another: new\n"))
}

func TestDiffFailures(t *testing.T) {
	s := start(t)
	invalid := filepath.Join(t.TempDir(), "p.yaml")
	g := NewWithT(t)
	g.Expect(os.WriteFile(invalid, []byte("apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: a, namespace: shop}\nspec: {limits: []}\n"), 0o600)).To(Succeed())
	for name, tc := range map[string]struct {
		args []string
		want string
		code int
	}{
		"nothing":         {nil, "-f: is required: a file, a folder, or - for standard input", 2},
		"no file":         {[]string{"-f", "/no/such"}, "/no/such", 3},
		"an invalid one":  {[]string{"-f", invalid}, "errors in the files: 1", 3},
		"no policy":       {[]string{"-f", t.TempDir()}, "error: ", 3},
		"a wrong address": {[]string{"-f", edited(t), "--address", "http://127.0.0.1:1"}, "does not answer", 3},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			code, out, complaint := s.diff(tc.args...)
			g.Expect(complaint).To(ContainSubstring(tc.want))
			g.Expect(code).To(Equal(tc.code))
			g.Expect(out).To(BeEmpty())
		})
	}
}

// With --address, diff reads no cluster: the output names each object that diff cannot compare.
func TestDiffNamesWhatAnAddressDoesNotHave(t *testing.T) {
	g, s := NewWithT(t), start(t)
	file := filepath.Join(t.TempDir(), "objects.yaml")
	g.Expect(os.WriteFile(file, []byte(`apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitKeyGroup
metadata: {name: gold}
spec: {group: gold, keys: [acme]}
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitException
metadata: {name: launch}
spec: {policy: burst, key: [acme], until: "2026-12-01T06:00:00Z", limits: [{name: short, threshold: 2}]}
`), 0o600)).To(Succeed())
	code, out, complaint := s.diff("-f", file)
	g.Expect(code).To(Equal(0), complaint)
	g.Expect(out).To(Equal("RateLimitKeyGroup shop/gold: not compared, because --address reads no cluster\n" +
		"RateLimitException shop/launch: not compared, because --address reads no cluster\n"))
}
