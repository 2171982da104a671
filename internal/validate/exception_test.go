// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package validate_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/validate"
)

// raised is an exception to the policy of tiers that lasts for the given time.
func raised(name string, length time.Duration) string {
	return fmt.Sprintf(`---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitException
metadata: {name: %s, namespace: shop}
spec:
  policy: api
  key: [acme]
  until: %q
  limits: [{name: burst, threshold: 20}]
`, name, time.Now().Add(length).UTC().Format(time.RFC3339))
}

func TestExceptions(t *testing.T) {
	policy, _, _ := strings.Cut(tiers, "  overrides:")
	for name, tc := range map[string]struct {
		files []string
		want  []string // the beginning of each line
	}{
		"a valid one": {[]string{policy, raised("a", time.Hour)}, nil},
		"no such policy": {[]string{raised("a", time.Hour)}, []string{
			"a.yaml:6:3: warning: RateLimitException shop/a: spec.policy: policy shop/api is not among the files",
		}},
		"beyond the bounds": {[]string{policy, strings.Replace(raised("a", time.Hour), "threshold: 20", "threshold: 51", 1)}, []string{
			"b.yaml:9:26: error: RateLimitException shop/a: spec.limits[0].threshold: Forbidden: 51 is more than 50",
		}},
		"ended": {[]string{policy, raised("a", -time.Hour)}, []string{
			"b.yaml:8:3: warning: RateLimitException shop/a: spec.until: has passed, so the exception has no effect",
		}},
		"two for one key": {[]string{policy, raised("a", time.Hour), raised("b", 2*time.Hour)}, []string{
			"b.yaml:7:3: warning: RateLimitException shop/a: spec.key: exception b is for the same key: until",
			"c.yaml:7:3: warning: RateLimitException shop/b: spec.key: exception a is for the same key: until",
		}},
		"one name twice": {[]string{policy, raised("a", time.Hour), raised("a", time.Hour)}, []string{
			"c.yaml:4:12: error: RateLimitException shop/a: metadata.name: RateLimitException shop/a is also defined at b.yaml:4:12",
		}},
		"an unknown field": {[]string{policy, strings.Replace(raised("a", time.Hour), "key:", "keys:", 1)}, []string{
			"b.yaml:7:3: error: RateLimitException shop/a: spec.keys: Forbidden: unknown field; did you mean key?",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			lines := findings(t, tc.files...)
			g.Expect(lines).To(HaveLen(len(tc.want)))
			for i, want := range tc.want {
				g.Expect(lines[i]).To(HavePrefix(want))
			}
		})
	}
}

func TestExceptionsAreCounted(t *testing.T) {
	g := NewWithT(t)
	policy, _, _ := strings.Cut(tiers, "  overrides:")
	result := validate.Run(t.Context(), []validate.Source{{Name: "a.yaml", Data: []byte(policy + raised("a", time.Hour))}}, "default")
	var out bytes.Buffer
	g.Expect(result.Write(&out, validate.FormatText, false)).To(Succeed())
	g.Expect(out.String()).To(HaveSuffix("0 errors, 0 warnings, 1 valid policy, 1 valid exception\n"))
	out.Reset()
	g.Expect(result.Write(&out, validate.FormatJSON, false)).To(Succeed())
	g.Expect(out.String()).To(ContainSubstring(`"exceptions": 1`))
}
