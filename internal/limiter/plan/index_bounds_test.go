// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestMatchesOfANamespaceAreBounded(t *testing.T) {
	g := NewWithT(t)
	var plans []*plan.Plan
	add := func(namespace string, mode plan.Mode, count int) {
		for i := range count {
			p := &plan.Plan{Namespace: namespace, Name: fmt.Sprintf("%s-%03d", strings.ToLower(string(mode)), i), Mode: mode}
			for range plan.MaxMatches {
				p.Matches = append(p.Matches, plan.Match{Descriptors: []plan.Entry{{Key: "user"}}, When: "true"})
			}
			plans = append(plans, p)
		}
	}
	const fit = plan.MaxNamespaceMatches / plan.MaxMatches / 64
	add("a", plan.ModeEnforce, 50)
	add("a", plan.ModeShadow, fit)
	add("b", plan.ModeEnforce, fit)
	slices.SortFunc(plans, func(a, b *plan.Plan) int { return strings.Compare(a.ID(), b.ID()) })
	var all plan.Attributes
	for i := range 64 {
		all.Descriptors = append(all.Descriptors, descriptor(fmt.Sprint("user=", i)))
	}
	found, leftOut := map[string]int{}, map[string]int{}
	for _, f := range plan.NewSnapshot(1, plans).Match(&all) {
		if f.LeftOut {
			leftOut[f.Plan.ID()]++
		} else {
			found[f.Plan.ID()]++
		}
	}
	g.Expect(found).To(HaveLen(3*fit), "the first of each Namespace and mode")
	g.Expect(found).To(HaveEach(64 * plan.MaxMatches))
	g.Expect(found).To(HaveKey(fmt.Sprintf("a/enforce-%03d", fit-1)))
	g.Expect(leftOut).To(HaveLen(50 - fit))
	g.Expect(leftOut).To(HaveEach(1))
}

// All descriptors lead to the same matches, and each is looked at once.
func TestDescriptorsFindMatchesOnce(t *testing.T) {
	g := NewWithT(t)
	var plans []*plan.Plan
	for i := range 300 {
		plans = append(plans, &plan.Plan{
			Namespace: "a", Name: fmt.Sprintf("p%03d", i), Mode: plan.ModeEnforce,
			Matches: []plan.Match{matchEntries("user"), matchEntries(fmt.Sprint("only=", i))},
		})
	}
	var all plan.Attributes
	for i := range 64 {
		all.Descriptors = append(all.Descriptors, descriptor(fmt.Sprint("user=", i), fmt.Sprint("only=", i)))
	}
	g.Expect(plan.NewSnapshot(1, plans).Candidates(&all)).To(Equal(300 + 64))
}
