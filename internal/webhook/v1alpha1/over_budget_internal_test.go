// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/testenv/testpolicy"
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
		all := measure(sizes, recordsOf{plan.KindKeyGroup, namespace}, groups, func(group *v1alpha1.RateLimitKeyGroup) int {
			calls = append(calls, group.Name)
			return 7
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
			v := &keyGroupValidator{&Validator{Sizes: &RecordSizes{Objects: objects, Budget: plan.Budget{KeyBytes: 8 << 20}}}}
			b.ReportAllocs()
			for b.Loop() {
				if warnings, err := v.ValidateCreate(b.Context(), &objects.groups[7]); err != nil || len(warnings) > 0 {
					b.Fatal(warnings, err)
				}
			}
		})
	}
}
