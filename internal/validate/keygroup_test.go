// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package validate_test

import (
	"bytes"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/validate"
)

const tiers = `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: api, namespace: shop}
spec:
  key: [{type: Principal, principal: {}}]
  limits: [{name: burst, algorithm: FixedWindow, threshold: 5, window: 1m}]
  overrides:
  - {name: gold, groups: [gold], limits: [{name: burst, threshold: 50}]}
  - {name: silver, groups: [silver], limits: [{name: burst, threshold: 10}]}
`

const gold = `---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitKeyGroup
metadata: {name: gold-0, namespace: shop}
spec:
  group: gold
  keys: [acme, globex]
`

func TestKeyGroups(t *testing.T) {
	silver := strings.NewReplacer("gold", "silver", "globex", "initech").Replace(gold)
	for name, tc := range map[string]struct {
		files []string
		want  []string // the beginning of each line
	}{
		"valid ones":           {[]string{tiers, gold, strings.Replace(silver, "acme", "umbrella", 1)}, nil},
		"a group without keys": {[]string{tiers, gold}, []string{"a.yaml:9:29: warning: shop/api: spec.overrides[1].groups[0]: no RateLimitKeyGroup"}},
		"a key in two groups": {[]string{tiers, gold, silver}, []string{
			"a.yaml:9:29: warning: shop/api: spec.overrides[1].groups[0]: 1 of its keys are also in groups of earlier overrides, which decide",
			`b.yaml:7:3: warning: RateLimitKeyGroup shop/gold-0: spec.keys: also in the group silver: "acme"; override gold of policy api`,
			`c.yaml:7:3: warning: RateLimitKeyGroup shop/silver-0: spec.keys: also in the group gold: "acme"; override gold of policy api`,
		}},
		"an unused group": {[]string{gold}, []string{"a.yaml:6:3: warning: RateLimitKeyGroup shop/gold-0: spec.group: no override"}},
		"a group of another Namespace": {[]string{gold, strings.ReplaceAll(tiers, "shop", "other")}, []string{
			"a.yaml:6:3: warning: RateLimitKeyGroup shop/gold-0: spec.group: no override",
			"b.yaml:8:27: warning: other/api: spec.overrides[0].groups[0]: no RateLimitKeyGroup",
			"b.yaml:9:29: warning: other/api: spec.overrides[1].groups[0]: no RateLimitKeyGroup",
		}},
		"one name twice": {[]string{strings.Split(tiers, "  - {name: silver")[0], gold, gold}, []string{
			"c.yaml:4:12: error: RateLimitKeyGroup shop/gold-0: metadata.name: RateLimitKeyGroup shop/gold-0 is also defined at b.yaml:4:12",
		}},
		"an empty key": {[]string{strings.Replace(gold, "acme", `""`, 1)}, []string{
			"a.yaml:7:10: error: RateLimitKeyGroup shop/gold-0: spec.keys[0]: Invalid value",
		}},
		"an unknown field": {[]string{strings.Replace(gold, "keys:", "key:", 1)}, []string{
			"a.yaml:5:1: error: RateLimitKeyGroup shop/gold-0: spec.keys: Required value",
			"a.yaml:7:3: error: RateLimitKeyGroup shop/gold-0: spec.key: Forbidden: unknown field; did you mean keys?",
		}},
		"a kind": {[]string{strings.Replace(gold, "RateLimitKeyGroup", "RateLimitKeyGroups", 1)}, []string{
			`a.yaml:3:1: error: apiVersion "ratelimit.weir.dev/v1alpha1", kind "RateLimitKeyGroups": this release supports`,
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

func TestKeyGroupsAreCounted(t *testing.T) {
	g := NewWithT(t)
	result := validate.Run(t.Context(), []validate.Source{{Name: "a.yaml", Data: []byte(tiers + gold)}}, "default")
	var out bytes.Buffer
	g.Expect(result.Write(&out, validate.FormatText, false)).To(Succeed())
	g.Expect(out.String()).To(HaveSuffix("0 errors, 1 warning, 1 valid policy, 1 valid key group\n"))
	out.Reset()
	g.Expect(result.Write(&out, validate.FormatJSON, false)).To(Succeed())
	g.Expect(out.String()).To(ContainSubstring(`"keyGroups": 1`))
}
