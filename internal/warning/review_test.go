// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// size is how many objects of each kind a tenant has for a review, and how large they are.
type size struct{ policies, groups, objects, keys int }

// tenant returns policies of which each selects all groups, and key groups of which all have the same keys.
func (s size) tenant() (policies []v1alpha1.RateLimitPolicy, keyGroups []v1alpha1.RateLimitKeyGroup) {
	var names, same []string
	for i := range s.groups {
		names = append(names, fmt.Sprint("g", i))
	}
	for i := range s.keys {
		same = append(same, fmt.Sprint("tenant-", i))
	}
	for i := range s.policies {
		b := testpolicy.Make(fmt.Sprintf("shop/p%d", i)).Key(testpolicy.PrincipalPart()).Limit("l", fixed, 5, "1m")
		for j := range names {
			b.Override(override(fmt.Sprint("o", j), groups(names[j])))
		}
		policies = append(policies, *b.Obj())
	}
	for i := range s.objects {
		keyGroups = append(keyGroups, keyGroup(fmt.Sprint("k", i), names[i%len(names)], same...))
	}
	return policies, keyGroups
}

// What a tenant owns adds to the steps of a review, and does not multiply: the steps are few for each group that a policy
// selects and for each key, and so are the allocations.
func TestReviewsOfKeyGroupsAreSums(t *testing.T) {
	for _, s := range []size{{25, 25, 50, 125}, {50, 25, 50, 125}, {25, 50, 50, 125}, {25, 25, 100, 125}, {25, 25, 50, 250}, {50, 50, 100, 250}} {
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
			g := NewWithT(t)
			policies, keyGroups := s.tenant()
			of, problems := compile.Compile(&policies[0], compile.Everything(), time.Time{})
			g.Expect(problems).To(BeEmpty())
			ofGroup, ofPolicy := &Review{}, &Review{}
			allocs := testing.AllocsPerRun(1, func() {
				*ofGroup, *ofPolicy = Review{}, Review{}
				ofGroup.KeyGroup(&keyGroups[0], keyGroups, policies)
				ofPolicy.Groups(&policies[0], of, keyGroups)
			})
			g.Expect(ofGroup.steps).To(BeNumerically("<=", 2*s.policies*s.groups+s.policies+s.objects*s.keys))
			g.Expect(ofPolicy.steps).To(BeNumerically("<=", 2*s.objects*s.keys))
			g.Expect(allocs).To(BeNumerically("<=", s.policies*s.groups+s.objects*s.keys))
		})
	}
}

// The most that fits into the budgets of a Namespace, with the same keys in all groups.
func TestTheLargestReviewsOfKeyGroupsAreBounded(t *testing.T) {
	g := NewWithT(t)
	policies, keyGroups := size{policies: 400, groups: 64, objects: 250, keys: 1000}.tenant()
	review := &Review{}
	warnings := review.KeyGroup(&keyGroups[0], keyGroups, policies)
	g.Expect(warnings).To(HaveLen(maxShared + 1))
	g.Expect(review.steps).To(BeNumerically("<=", maxSteps))
	g.Expect(review.Unfinished()).To(BeEmpty())

	ended := make(chan struct{})
	close(ended)
	review = &Review{Ended: ended}
	g.Expect(review.KeyGroup(&keyGroups[0], keyGroups, policies)).To(BeEmpty(), "nothing is known")
	g.Expect(review.steps).To(BeNumerically("<=", maxSteps))
	crowded := manyHostsAndPaths(20)
	g.Expect(review.CrowdedMatches(&crowded[0], crowded)).To(BeEmpty())
	g.Expect(review.Unfinished()).To(Equal([]string{"spec: not compared with the whole Namespace, which is too large for one review: " +
		"keys of other groups, policies with the same requests are unchecked"}))
}

// Matches with many hosts and paths: the review of each match stops after a bounded number of comparisons.
func TestCrowdedReviewsAreBounded(t *testing.T) {
	g := NewWithT(t)
	policies := manyHostsAndPaths(500)
	var allocs float64
	for _, n := range []int{250, 500} {
		review := &Review{}
		before := allocs
		allocs = testing.AllocsPerRun(1, func() {
			*review = Review{}
			review.CrowdedMatches(&policies[0], policies[:n])
		})
		g.Expect(review.steps).To(BeNumerically("<=", maxSteps))
		g.Expect(review.Unfinished()).To(Equal([]string{"spec: not compared with the whole Namespace, which is too large for one review: " +
			"policies with the same requests are unchecked"}))
		if before > 0 {
			g.Expect(allocs).To(BeNumerically("<=", before*5/2))
		}
	}
	few := &Review{}
	g.Expect(few.CrowdedMatches(&policies[0], nil)).To(BeEmpty())
	g.Expect(few.steps).To(BeZero())
}

// Policies for exact hosts are compared with the requests for these hosts alone: twice as many policies, hosts and paths, each and
// together, take at most 2.5 times as many steps for each value of a match.
func TestCrowdedReviewsAreSums(t *testing.T) {
	g := NewWithT(t)
	cost := func(policies, hosts, paths int) (stepsForEachValue float64) {
		var all []v1alpha1.RateLimitPolicy
		for i := range policies {
			var m v1alpha1.Match
			for j := range hosts {
				m.Hosts = append(m.Hosts, fmt.Sprintf("h%d.p%d.example", j, i%20))
			}
			for j := range paths {
				m.Paths = append(m.Paths, fmt.Sprint("/", j))
			}
			all = append(all, *testpolicy.Make(fmt.Sprintf("shop/p%d", i)).Match(m).Limit("l", fixed, 5, "1m").Obj())
		}
		review := &Review{}
		review.CrowdedMatches(&all[0], all)
		g.Expect(review.Unfinished()).To(BeEmpty())
		return float64(review.steps) / float64(policies*(hosts+paths))
	}
	small := cost(200, 8, 8)
	for _, large := range []float64{cost(400, 8, 8), cost(200, 16, 8), cost(200, 8, 16), cost(400, 16, 16)} {
		g.Expect(large).To(BeNumerically("<=", small*5/2))
	}
}

// manyHostsAndPaths returns policies of 16 matches with 32 hosts and 32 paths, each of which other matches have too.
func manyHostsAndPaths(n int) (policies []v1alpha1.RateLimitPolicy) {
	for i := range n {
		b := testpolicy.Make(fmt.Sprintf("shop/p%d", i)).Limit("l", fixed, 5, "1m")
		for j := range 16 {
			var m v1alpha1.Match
			for k := range 32 {
				m.Hosts = append(m.Hosts, fmt.Sprintf("h%d.example", (i+j+k)%97))
				m.Paths = append(m.Paths, fmt.Sprintf("/p%d", (i+7*j+k)%89))
			}
			b.Match(m)
		}
		policies = append(policies, *b.Obj())
	}
	return policies
}
