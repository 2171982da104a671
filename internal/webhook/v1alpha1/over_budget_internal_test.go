// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/warning"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// Each generation of an object is measured once, and an object that is gone is forgotten.
func TestSizesAreMeasuredOnce(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sizes, calls := &RecordSizes{}, []string{}
	group := func(name, uid string, generation int64) v1alpha1.RateLimitKeyGroup {
		return v1alpha1.RateLimitKeyGroup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Generation: generation}}
	}
	measured := func(namespace string, groups ...v1alpha1.RateLimitKeyGroup) []string {
		calls = []string{}
		all := measure(sizes, &warning.Review{}, recordsOf{plan.KindKeyGroup, namespace}, groups, func(group *v1alpha1.RateLimitKeyGroup) plan.Usage {
			calls = append(calls, group.Name)
			return plan.Usage{KeyBytes: 7}
		})
		g.Expect(all).To(HaveLen(len(groups)))
		return calls
	}
	g.Expect(measured("shop", group("a", "u", 1), group("b", "v", 1))).To(Equal([]string{"a", "b"}))
	g.Expect(measured("shop", group("a", "u", 1), group("b", "v", 2))).To(Equal([]string{"b"}), "another generation")
	g.Expect(measured("shop", group("a", "w", 1), group("b", "v", 2))).To(Equal([]string{"a"}), "another object")
	g.Expect(measured("bank", group("a", "w", 1))).To(Equal([]string{"a"}), "another Namespace")
	g.Expect(measured("shop", group("b", "v", 2))).To(BeEmpty())
	g.Expect(measured("shop", group("a", "w", 1), group("b", "v", 2))).To(Equal([]string{"a"}), "it was gone")
}

// A review that is over leaves the rest to the next one.
func TestMeasuringContinuesInTheNextReview(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sizes, compiled := &RecordSizes{Budget: plan.Budget{KeyBytes: 8000}}, 0
	groups := make([]v1alpha1.RateLimitKeyGroup, 1500)
	for i := range groups {
		groups[i].Name, groups[i].UID, groups[i].Generation = fmt.Sprint("g", i), types.UID(strconv.Itoa(i)), 1
	}
	for reviews := 1; ; reviews++ {
		review, before := &warning.Review{}, compiled
		all := measure(sizes, review, recordsOf{plan.KindKeyGroup, "shop"}, groups, func(*v1alpha1.RateLimitKeyGroup) plan.Usage {
			compiled++
			return plan.Usage{KeyBytes: 7}
		})
		g.Expect(compiled - before).To(BeNumerically("<=", 1024))
		if all != nil {
			g.Expect(review.Unfinished()).To(BeEmpty())
			g.Expect([]int{len(all), compiled, reviews}).To(Equal([]int{1500, 1500, 2}))
			return
		}
		g.Expect(review.Unfinished()).To(HaveLen(1))
	}
}

// Exceptions that have ended need no room.
func TestExceptionsWithoutMemoryAreWarnedOf(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	now := time.Unix(1_900_000_000, 0)
	exception := func(name string, until time.Duration) v1alpha1.RateLimitException {
		e := v1alpha1.RateLimitException{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		e.Spec = v1alpha1.RateLimitExceptionSpec{
			Policy: "api", Until: metav1.NewTime(now.Add(until)), Limits: []v1alpha1.ExceptionLimit{{Name: "burst"}}, Reason: "Launch.",
		}
		return e
	}
	v := &exceptionValidator{&Validator{Sizes: &RecordSizes{Budget: plan.Budget{ExceptionBytes: 30_000}}}}
	added := exception("added", time.Hour)
	warnings := func(others ...v1alpha1.RateLimitException) []string { return v.budgetWarnings(&added, others, now) }
	g.Expect(warnings(exception("a", time.Hour), exception("ended", -time.Hour), exception("over", -time.Hour))).To(BeEmpty())
	g.Expect(warnings(exception("a", time.Hour), exception("b", time.Hour))).To(ConsistOf(
		MatchRegexp(`The exceptions of the Namespace use \d+ of 30000 bytes of memory for exceptions, and this one needs \d+ more$`)))
}

// cachedObjects are the objects of one Namespace, as a cache returns them.
type cachedObjects struct {
	client.Reader
	groups   []v1alpha1.RateLimitKeyGroup
	policies []v1alpha1.RateLimitPolicy
}

func (c *cachedObjects) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *v1alpha1.RateLimitKeyGroupList:
		list.Items = c.groups
	case *v1alpha1.RateLimitPolicyList:
		list.Items = c.policies
	}
	return nil
}

// A review whose context has ended compares nothing, whatever the tenant owns, and reports that in one warning.
func TestReviewsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	objects := &cachedObjects{}
	for i := range 40 {
		b := testpolicy.Make(fmt.Sprintf("shop/p%d", i)).UID(strconv.Itoa(i)).Key(testpolicy.HeaderPart("X-A")).Limit("a", v1alpha1.AlgorithmFixedWindow, 1, "1m").
			Match(v1alpha1.Match{Paths: []string{fmt.Sprint("/", i)}})
		for j := range 64 {
			b.Override(v1alpha1.Override{Name: fmt.Sprint("o", j), Groups: []string{fmt.Sprint("g", j)}, Action: v1alpha1.OverrideActionAllow})
		}
		objects.policies = append(objects.policies, *b.Obj())
	}
	for i := range 64 {
		group := v1alpha1.RateLimitKeyGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("k", i), UID: types.UID(strconv.Itoa(i))}}
		group.Spec.Group = fmt.Sprint("g", i)
		for j := range plan.MaxGroupKeys {
			group.Spec.Keys = append(group.Spec.Keys, fmt.Sprintf("tenant-%d", j))
		}
		objects.groups = append(objects.groups, group)
	}
	v := &Validator{Matches: &warning.MatchIndex{}, Tenancy: compile.TenancyCluster, Sizes: &RecordSizes{Objects: objects}, ReviewTime: time.Hour}
	ctx, end := context.WithCancel(t.Context())
	reviews := func() (ofGroup, ofPolicy []string) {
		ofGroup, err := (&keyGroupValidator{v}).ValidateCreate(ctx, &objects.groups[0])
		g.Expect(err).NotTo(HaveOccurred())
		ofPolicy, err = v.ValidateCreate(ctx, &objects.policies[0])
		g.Expect(err).NotTo(HaveOccurred())
		return ofGroup, ofPolicy
	}
	ofGroup, ofPolicy := reviews()
	g.Expect(ofGroup).To(HaveLen(17), "16 other groups, and that there are more")
	g.Expect(ofPolicy).To(HaveLen(63), "the other groups, whose keys are also in the first")
	end()
	v.Sizes = &RecordSizes{Objects: objects} // nothing is measured
	ofGroup, ofPolicy = reviews()
	const unfinished = "spec: not compared with the whole Namespace, which is too large for one review: "
	g.Expect(ofGroup).To(ConsistOf(unfinished + "budgets, keys of other groups are unchecked"))
	g.Expect(ofPolicy).To(ConsistOf(unfinished + "keys of other groups, budgets are unchecked"))
}

// BenchmarkReviewKeyGroup reviews one of 250 key groups of 1,000 keys, beside a policy that selects one group, and one
// that also selects another, whose keys are compared.
func BenchmarkReviewKeyGroup(b *testing.B) {
	for _, tiers := range []string{"gold", "silver"} {
		b.Run("tiers to "+tiers, func(b *testing.B) {
			objects := &cachedObjects{policies: []v1alpha1.RateLimitPolicy{*testpolicy.Make("shop/api").Override(
				v1alpha1.Override{Name: "best", Groups: []string{"gold"}, Action: v1alpha1.OverrideActionAllow},
				v1alpha1.Override{Name: "better", Groups: []string{tiers}, Action: v1alpha1.OverrideActionAllow}).Obj()}}
			for i := range 250 {
				group := v1alpha1.RateLimitKeyGroup{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("gold-%03d", i), UID: types.UID(strconv.Itoa(i)), Generation: 1},
					Spec:       v1alpha1.RateLimitKeyGroupSpec{Group: []string{"gold", tiers}[i%2]},
				}
				for j := range plan.MaxGroupKeys {
					group.Spec.Keys = append(group.Spec.Keys, fmt.Sprintf("tenant-%013d", i*plan.MaxGroupKeys+j))
				}
				objects.groups = append(objects.groups, group)
			}
			v := &keyGroupValidator{&Validator{Sizes: &RecordSizes{Objects: objects, Budget: plan.Budget{KeyBytes: 32 << 20}}}}
			b.ReportAllocs()
			for b.Loop() {
				if warnings, err := v.ValidateCreate(b.Context(), &objects.groups[7]); err != nil || len(warnings) > 0 {
					b.Fatal(warnings, err)
				}
			}
		})
	}
}
