// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Each testdata/<case>.in.yaml compiles to <case>.out.json, or fails with the
// lines of <case>.out.txt. Inputs pass the schema first, as on an API server.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	samples, err := filepath.Glob("../../config/samples/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(inputs) > 0 && len(samples) > 0).To(BeTrue())
	for _, input := range append(inputs, samples...) {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(input), ".yaml"), ".in")
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			data, err := os.ReadFile(input)
			g.Expect(err).NotTo(HaveOccurred())
			policies, err := testpolicy.Read(t.Context(), data)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(policies).To(HaveLen(1))
			before := policies[0].DeepCopy()

			compiled, errs := compile.Compile(policies[0], compile.Everything(), time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC))
			g.Expect(policies[0]).To(Equal(before), "the policy is unchanged")
			if errs != nil {
				var lines strings.Builder
				for _, e := range errs {
					lines.WriteString(e.Error() + "\n")
				}
				golden(t, "testdata/"+name+".out.txt", []byte(lines.String()))
				return
			}
			encoded, err := plan.Encode(compiled)
			g.Expect(err).NotTo(HaveOccurred())
			var indented bytes.Buffer
			g.Expect(json.Indent(&indented, encoded, "", "  ")).To(Succeed())
			golden(t, "testdata/"+name+".out.json", append(indented.Bytes(), '\n'))

			decoded, err := plan.DecodePlan(encoded)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(decoded).To(Equal(compiled))
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	NewWithT(t).Expect(string(got)).To(Equal(string(want)))
}

// Compile may get policies that were not validated by the schema. It returns errors
// then, never an invalid plan.
func TestCompileWithoutSchema(t *testing.T) {
	limited := func() *testpolicy.Builder {
		return testpolicy.Make("shop/x").Key(testpolicy.PrincipalPart()).
			Limit("log", "SlidingLog", 5, "1s").Limit("buckets", "SlidingWindow", 5, "1s", testpolicy.Bucket("500ms"))
	}
	changed := func(l v1alpha1.LimitOverride) *testpolicy.Builder {
		return limited().Override(v1alpha1.Override{Name: "o", Keys: []string{"a"}, Limits: []v1alpha1.LimitOverride{l}})
	}
	deny := func(name string) v1alpha1.Override {
		return v1alpha1.Override{Name: name, Keys: []string{"a"}, Action: v1alpha1.OverrideActionDeny}
	}
	for name, tc := range map[string]struct {
		policy *testpolicy.Builder
		want   string
	}{
		"nothing":     {testpolicy.Make("shop/empty"), "0 limits"},
		"a bad name":  {testpolicy.Make("Shop/x").Limit("l", "FixedWindow", 1, "1s"), "namespace"},
		"no window":   {testpolicy.Make("shop/x").Limit("l", "FixedWindow", 1, ""), "a window of 0 ms"},
		"bad window":  {testpolicy.Make("shop/x").Limit("l", "FixedWindow", 1, "soon"), "spec.limits[0].window"},
		"long window": {testpolicy.Make("shop/x").Limit("l", "FixedWindow", 1, "8785h"), "a window of"},
		"long log":    {testpolicy.Make("shop/x").Limit("l", "SlidingLog", 1, "721h"), "a window of"},
		"threshold":   {testpolicy.Make("shop/x").Limit("l", "SlidingLog", 100_001, "1s"), "limits[0].threshold 100001"},
		"no quota":    {testpolicy.Make("shop/x").DenyWhen("ThresholdReached").Limit("l", "FixedWindow", 1, "1s"), "limits[0].threshold 1"},
		"a bad mode":  {testpolicy.Make("shop/x").Mode("Maybe").Limit("l", "FixedWindow", 1, "1s"), "mode"},
		"same names":  {testpolicy.Make("shop/x").Limit("l", "FixedWindow", 1, "1s").Limit("l", "FixedWindow", 1, "2s"), "limits[1].name"},

		"an algorithm":       {testpolicy.Make("shop/x").Limit("l", "Abacus", 1, "1s"), "limits[0].algorithm"},
		"a burst of windows": {testpolicy.Make("shop/x").Limit("l", "FixedWindow", 1, "1s", testpolicy.Burst(2)), "limits[0].burst 2"},
		"no burst":           {testpolicy.Make("shop/x").Limit("l", "GCRA", 1, "1s", testpolicy.Burst(0)), "limits[0].burst 0"},
		"a burst for ever":   {testpolicy.Make("shop/x").Limit("l", "GCRA", 1, "720h", testpolicy.Burst(plan.MaxThreshold)), "takes more than a hundred years to refill"},
		"a bucket":           {testpolicy.Make("shop/x").Limit("l", "TokenBucket", 1, "1s", testpolicy.Bucket("1ms")), "a bucket of 1000 us"},
		"a bad bucket":       {testpolicy.Make("shop/x").Limit("l", "Suppressed", 1, "1s", testpolicy.Bucket("1")), "spec.limits[0].bucket"},
		"a large bucket":     {testpolicy.Make("shop/x").Limit("l", "Suppressed", 1, "1s", testpolicy.Bucket("501ms")), "a bucket of 501000 us"},
		"a short window":     {testpolicy.Make("shop/x").Limit("l", "SlidingWindow", 1, "1ms"), "a window of 1 ms"},
		"a hard limit":       {testpolicy.Make("shop/x").Limit("l", "Suppressed", 1, "1s", testpolicy.HardLimitPercent(100)), "hardLimitPercent 100"},
		"a maxTTL":           {testpolicy.Make("shop/x").Limit("l", "FixedWindow", 1, "1s").Reservations("1", 1), "spec.reservations.maxTTL"},
		"a long maxTTL":      {testpolicy.Make("shop/x").Limit("l", "FixedWindow", 1, "1s").Reservations("25h", 1), "a maxTTL of 90000000 ms"},
		"sliced":             {testpolicy.Make("shop/x").Limit("l", "FixedWindow", 100, "1m").Slices(10, "3500ms"), "spec.slices.maxAge"},
		"sliced blocks":      {testpolicy.Make("shop/x").Limit("l", "FixedWindow", 100, "1h", testpolicy.BlockDuration("1m")).Slices(10, "1s"), "spec.limits[0]: Invalid value: must start no blocks"},
		"sliced too little":  {testpolicy.Make("shop/x").Limit("l", "FixedWindow", 99, "1h").Slices(10, "1s"), "spec.limits[0].threshold: Invalid value: must admit at least 100 units"},
		"attempts":           {testpolicy.Make("shop/x").Counting("Attempts").Limit("l", "TokenBucket", 1, "1s"), "supports neither counting Attempts nor denyWhen ThresholdReached"},

		"an empty match":     {testpolicy.Make("shop/x").Match(v1alpha1.Match{}).Limit("l", "FixedWindow", 1, "1s"), "matches[0] is empty"},
		"an entry of no key": {testpolicy.Make("shop/x").Match(v1alpha1.Match{Descriptors: []v1alpha1.DescriptorMatch{{Value: "v"}}}).Limit("l", "FixedWindow", 1, "1s"), "matches[0].descriptors[0]"},
		"a part of no entry": {testpolicy.Make("shop/x").Key(testpolicy.DescriptorPart("")).Limit("l", "FixedWindow", 1, "1s"), "key[0].descriptor"},
		"a part of nothing":  {testpolicy.Make("shop/x").Key(v1alpha1.KeyPart{Type: v1alpha1.KeyPartExpression}).Limit("l", "FixedWindow", 1, "1s"), "key[0].expression"},
		"no expression":      {testpolicy.Make("shop/x").Key(v1alpha1.KeyPart{Type: v1alpha1.KeyPartExpression, Expression: &v1alpha1.ExpressionKey{}}).Limit("l", "FixedWindow", 1, "1s"), "spec.key[0].expression.cel"},

		"a target's name": {testpolicy.Make("shop/x").Target("Gateway", "a").Target("HTTPRoute", "a/b").Limit("l", "FixedWindow", 1, "1s"), "spec.targetRefs[1]: Invalid value: must be Gateway, HTTPRoute or GRPCRoute"},
		"a target's kind": {testpolicy.Make("shop/x").Target("Service", "a").Limit("l", "FixedWindow", 1, "1s"), "spec.targetRefs[0]"},

		"an override twice":   {limited().Override(deny("o"), deny("o")), "overrides[1].name"},
		"keys without a key":  {testpolicy.Make("shop/x").Limit("l", "GCRA", 1, "1s").Override(deny("o")), "not of 0"},
		"keys of two parts":   {limited().Key(testpolicy.PrincipalPart()).Override(deny("o")), "not of 2"},
		"a network":           {limited().Override(v1alpha1.Override{Name: "o", CIDRs: []string{"10.0.0.0/8", "10/8"}, Action: "Deny"}), "spec.overrides[0].cidrs[1]"},
		"an unknown limit":    {changed(v1alpha1.LimitOverride{Name: "x"}), "overrides[0].limits[0].name"},
		"a long log":          {changed(v1alpha1.LimitOverride{Name: "log", Threshold: new(int64(100_001))}), "overrides[0].limits[0].threshold 100001"},
		"a burst of a log":    {changed(v1alpha1.LimitOverride{Name: "log", Burst: new(int64(1))}), "overrides[0].limits[0].burst 1"},
		"a window of buckets": {changed(v1alpha1.LimitOverride{Name: "buckets", Window: "999ms"}), "a bucket of 500000 us is out of bounds for a window of 999 ms"},
		"a bad block":         {changed(v1alpha1.LimitOverride{Name: "log", BlockDuration: "x"}), "spec.overrides[0].limits[0].blockDuration"},
		"a large plan":        {largePolicy(), "bytes, at most 131072 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			compiled, errs := compile.Compile(tc.policy.Obj(), compile.Everything(), time.Time{})
			g.Expect(compiled).To(BeNil())
			g.Expect(errs.ToAggregate()).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

// largePolicy returns a policy within every bound of the schema whose plan is too large.
func largePolicy() *testpolicy.Builder {
	policy := testpolicy.Make("shop/x").Key(testpolicy.PrincipalPart()).Limit("l", "FixedWindow", 1, "1s")
	for i := range 10 {
		o := v1alpha1.Override{Name: fmt.Sprint("o", i), Action: v1alpha1.OverrideActionDeny}
		for range 64 {
			o.Keys = append(o.Keys, strings.Repeat("k", 255))
		}
		policy.Override(o)
	}
	return policy
}

// The addresses of requests are never IPv4-mapped, so networks must not be.
func TestNetworksAreNormalized(t *testing.T) {
	g := NewWithT(t)
	compiled, errs := compile.Compile(testpolicy.Make("shop/x").Limit("l", "GCRA", 1, "1s").Override(v1alpha1.Override{
		Name: "o", Action: v1alpha1.OverrideActionDeny,
		CIDRs: []string{"::ffff:10.1.2.3/104", "::ffff:192.0.2.1/128", "::ffff:10.0.0.0/90", "2001:db8::1/32", "10.1.2.3/8"},
	}).Obj(), compile.Everything(), time.Time{})
	g.Expect(errs).To(BeEmpty())
	var networks []string
	for _, network := range compiled.Overrides[0].CIDRs {
		networks = append(networks, network.String())
	}
	g.Expect(networks).To(Equal([]string{"10.0.0.0/8", "192.0.2.1/32", "::ffc0:0:0/90", "2001:db8::/32", "10.0.0.0/8"}))
}
