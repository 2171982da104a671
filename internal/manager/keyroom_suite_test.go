// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

var _ = Describe("A key group without room", func() {
	It("is read again and published once there is room", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		create := func(name string, keys int) *v1alpha1.RateLimitKeyGroup {
			GinkgoHelper()
			group := &v1alpha1.RateLimitKeyGroup{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.RateLimitKeyGroupSpec{Group: "gold"},
			}
			for i := range keys {
				group.Spec.Keys = append(group.Spec.Keys, fmt.Sprint(name, i, strings.Repeat("x", 200)))
			}
			Expect(api.Create(ctx, group)).To(Succeed())
			return group
		}
		state := func(group *v1alpha1.RateLimitKeyGroup) func(context.Context) []string {
			return func(ctx context.Context) (reasons []string) {
				got := &v1alpha1.RateLimitKeyGroup{}
				Expect(api.Get(ctx, client.ObjectKeyFromObject(group), got)).To(Succeed())
				for _, name := range []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionReady} {
					if c := meta.FindStatusCondition(got.Status.Conditions, name); c != nil {
						reasons = append(reasons, c.Reason)
					}
				}
				if got.Status.KeyCount != nil {
					reasons = append(reasons, strconv.Itoa(int(*got.Status.KeyCount)))
				}
				return reasons
			}
		}
		first := create("first", 100)
		Eventually(ctx, state(first)).Should(Equal([]string{"Accepted", "Ready", "100"}))
		second := create("second", 90)
		Eventually(ctx, state(second)).Should(Equal([]string{"OverBudget", "NotReady", "90"}))
		Expect(api.Delete(ctx, first)).To(Succeed())
		Eventually(ctx, state(second)).Should(Equal([]string{"Accepted", "Ready", "90"}))
	})
})
