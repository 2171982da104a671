// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// 250 key groups of 1 MB, as many as a ResourceQuota may permit, take as much memory of the cache as the budgets permit.
func TestKeysBeyondTheBudgetAreNotInTheCache(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	room := newKeyRoom(plan.Budgets{Namespace: plan.Budget{KeyBytes: 32 << 20}, Total: plan.Budget{KeyBytes: 80 << 20}})
	cached := map[string]*v1alpha1.RateLimitKeyGroup{}
	store := func(namespace string, i, keys int) *v1alpha1.RateLimitKeyGroup {
		group := &v1alpha1.RateLimitKeyGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("g", i), UID: types.UID(fmt.Sprint(namespace, i))}}
		for j := range keys {
			group.Spec.Keys = append(group.Spec.Keys, strings.Repeat("\U0001F600", 250)+fmt.Sprintf("%05d", j))
		}
		object, err := room.transform(group)
		g.Expect(err).NotTo(HaveOccurred())
		cached[string(group.UID)] = object.(*v1alpha1.RateLimitKeyGroup)
		return cached[string(group.UID)]
	}
	bytes := func() (n int) {
		for _, group := range cached {
			if compile.HasKeys(group) {
				usage := usageOf(group)
				n += usage.KeyBytes
			}
		}
		return n
	}
	for i := range 250 {
		group := store("evil", i, plan.MaxGroupKeys)
		g.Expect(compile.DistinctKeys(group)).To(Equal(plan.MaxGroupKeys), "also of omitted keys")
	}
	g.Expect(bytes()).To(And(BeNumerically(">", 30<<20), BeNumerically("<=", 32<<20)))
	g.Expect(compile.HasKeys(store("shop", 0, plan.MaxGroupKeys))).To(BeTrue(), "another Namespace has its own room")
	for _, namespace := range []string{"a", "b", "c"} {
		for i := range 20 {
			store(namespace, i, plan.MaxGroupKeys)
		}
	}
	g.Expect(bytes()).To(BeNumerically("<=", 80<<20))

	again := cached["evil249"]
	g.Expect(compile.HasKeys(again)).To(BeFalse())
	g.Expect(room.transform(again)).To(BeIdenticalTo(again), "a cache may transform an object again")
	g.Expect(compile.DistinctKeys(again)).To(Equal(plan.MaxGroupKeys))
	for _, group := range cached {
		room.release(group)
	}
	g.Expect(room.total).To(BeZero())
	g.Expect(room.used).To(BeEmpty())
	g.Expect(room.kept).To(BeEmpty())
	g.Expect(compile.HasKeys(store("evil", 249, 1))).To(BeTrue())
}
