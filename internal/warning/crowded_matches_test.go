// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

func TestCrowdedMatches(t *testing.T) {
	policies := func(n, limits int, match func(i int) v1alpha1.Match) (made []v1alpha1.RateLimitPolicy) {
		for i := range n {
			b := testpolicy.Make(fmt.Sprintf("shop/p%d", i)).Match(match(i))
			for j := range limits {
				b = b.Limit(fmt.Sprintf("l%d", j), fixed, 5, "1m")
			}
			made = append(made, *b.Obj())
		}
		return made
	}
	onHost := func(int) v1alpha1.Match { return v1alpha1.Match{Hosts: []string{"a.example", "*.shop.example"}} }
	onPath := func(i int) v1alpha1.Match {
		return v1alpha1.Match{Hosts: []string{"a.example"}, Paths: []string{fmt.Sprintf("/p%d/*", i)}, Methods: []string{"GET"}}
	}
	when := func(int) v1alpha1.Match {
		return v1alpha1.Match{Hosts: []string{"a.example"}, When: `request.path == "/x"`}
	}
	described := func(int) v1alpha1.Match {
		return v1alpha1.Match{Domain: "edge", Descriptors: []v1alpha1.DescriptorMatch{{Key: "user"}}}
	}
	disabled := policies(30, 4, onHost)
	for i := range disabled[1:] {
		disabled[i+1].Spec.Mode = v1alpha1.ModeDisabled
	}
	const tooMany = "spec.matches[0]: its requests match %d policies with %d limits of the Namespace, at most 16 with 64 are evaluated; the failureMode of the others decides"
	for name, tc := range map[string]struct {
		policies []v1alpha1.RateLimitPolicy
		want     []string
	}{
		"as many as fit":                        {policies: policies(16, 4, onHost)},
		"too many policies":                     {policies(17, 1, onHost), []string{fmt.Sprintf(tooMany, 17, 17)}},
		"too many limits":                       {policies(5, 16, onHost), []string{fmt.Sprintf(tooMany, 5, 80)}},
		"too many by descriptors":               {policies(20, 1, described), []string{fmt.Sprintf(tooMany, 20, 20)}},
		"many paths of a host":                  {policies: policies(500, 16, onPath)[:200]},
		"conditions hold one at a time":         {policies: policies(40, 16, when)},
		"disabled policies match nothing":       {policies: disabled},
		"paths below the paths of a wide match": {policies: append(policies(1, 4, onHost), policies(60, 4, onPath)[1:]...)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect((&Review{}).CrowdedMatches(&tc.policies[0], tc.policies)).To(Equal(tc.want))
			g.Expect((&Review{}).CrowdedMatches(&tc.policies[0], tc.policies[1:])).To(Equal(tc.want), "a new policy")
		})
	}
}
