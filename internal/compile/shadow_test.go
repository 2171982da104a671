// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

func TestShadowOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		value   string
		mode    v1alpha1.Mode
		until   time.Time
		problem string
		next    time.Time
	}{
		"no annotation":      {},
		"an hour":            {value: "2026-11-22T16:00:00Z", until: now.Add(time.Hour), next: now.Add(time.Hour)},
		"another zone":       {value: "2026-11-22T18:00:00+02:00", until: now.Add(time.Hour), next: now.Add(time.Hour)},
		"the past":           {value: "2026-11-22T14:59:59Z"},
		"now":                {value: "2026-11-22T15:00:00Z"},
		"a day":              {value: "2026-11-23T15:00:00Z", until: now.Add(24 * time.Hour), next: now.Add(24 * time.Hour)},
		"a clock ahead":      {value: "2026-11-23T15:01:00Z", until: now.Add(24*time.Hour + time.Minute), next: now.Add(24*time.Hour + time.Minute)},
		"more than a day":    {value: "2026-11-23T15:01:01Z", problem: "must be at most 24 hours ahead", next: now.Add(time.Second)},
		"the year 9999":      {value: "9999-12-31T23:59:59Z", problem: "must be at most 24 hours ahead", next: time.Date(9999, 12, 30, 23, 58, 59, 0, time.UTC)},
		"no time":            {value: "tomorrow", problem: "must be a time such as"},
		"a length":           {value: "1h", problem: "must be a time such as"},
		"a policy in Shadow": {value: "2026-11-22T16:00:00Z", mode: v1alpha1.ModeShadow},
		"a disabled policy":  {value: "tomorrow", mode: v1alpha1.ModeDisabled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			policy := testpolicy.Make("shop/login").Limit("burst", v1alpha1.AlgorithmFixedWindow, 5, "1m").Obj()
			policy.Spec.Mode = tc.mode
			if tc.value != "" {
				policy.Annotations = map[string]string{v1alpha1.ShadowUntilAnnotation: tc.value}
			}
			shadow := compile.ShadowOf(policy, now)
			g.Expect(shadow.Until).To(BeTemporally("==", tc.until))
			g.Expect(shadow.Next).To(BeTemporally("==", tc.next))

			compiled, problems := shadow.Apply(compile.Compile(policy, compile.Everything(), time.Time{}))
			if tc.problem != "" {
				g.Expect(compiled).To(BeNil())
				g.Expect(problems.ToAggregate()).To(MatchError(And(
					ContainSubstring("metadata.annotations[ratelimit.weir.dev/shadow-until]"), ContainSubstring(tc.problem))))
				return
			}
			g.Expect(problems).To(BeEmpty())
			want := plan.ModeEnforce
			if tc.mode != "" {
				want = plan.Mode(tc.mode)
			}
			if !tc.until.IsZero() {
				want = plan.ModeShadow
			}
			g.Expect(compiled.Mode).To(Equal(want))
		})
	}
}

func TestShadowSummary(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(compile.Shadow{}.Summary()).To(BeEmpty())
	zone := time.FixedZone("", 2*3600)
	g.Expect(compile.Shadow{Until: time.Date(2026, 11, 22, 18, 0, 0, 0, zone)}.Summary()).
		To(Equal(" (Shadow until 2026-11-22T16:00:00Z)"))
}

func TestShadowEqual(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	at := time.Date(2026, 11, 22, 16, 0, 0, 0, time.UTC)
	problem := func(detail string) compile.Shadow {
		return compile.Shadow{Problem: field.Invalid(field.NewPath("a"), "v", detail)}
	}
	g.Expect(compile.Shadow{Until: at}.Equal(compile.Shadow{Until: at})).To(BeTrue())
	g.Expect(compile.Shadow{Until: at}.Equal(compile.Shadow{})).To(BeFalse())
	g.Expect(problem("a").Equal(problem("a"))).To(BeTrue())
	g.Expect(problem("a").Equal(problem("b"))).To(BeFalse())
	g.Expect(problem("a").Equal(compile.Shadow{})).To(BeFalse())
}
