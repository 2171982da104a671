// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// A policy with a calendar is compiled again every month, since its plan has the offsets of two
// years; a policy without one is not.
func TestCalendarsAreRenewed(t *testing.T) {
	g := NewWithT(t)
	november := time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC)
	december := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	policy := testpolicy.Make("shop/x").Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "").Obj()
	policy.Spec.Limits[0].Calendar = &v1alpha1.Calendar{Period: v1alpha1.CalendarPeriodDay, TimeZone: "Europe/Berlin"}
	other := testpolicy.Make("shop/y").Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1m").Obj()

	c := &compilations{}
	first := c.of(policy, compile.Everything(), november)
	g.Expect(first.problems).To(BeEmpty())
	g.Expect(first.again()).To(Equal(december))
	g.Expect(c.of(policy, compile.Everything(), november.Add(30*time.Second))).To(BeIdenticalTo(first))
	renewed := c.of(policy, compile.Everything(), december)
	g.Expect(renewed).NotTo(BeIdenticalTo(first))
	g.Expect(renewed.again()).To(Equal(december.AddDate(0, 1, 0)))

	plain := c.of(other, compile.Everything(), november)
	g.Expect(plain.again()).To(BeZero())
	g.Expect(c.of(other, compile.Everything(), december)).To(BeIdenticalTo(plain))
}

// An annotation that changes its meaning earlier comes first.
func TestNextCompilation(t *testing.T) {
	soon, later := time.Unix(1, 0), time.Unix(2, 0)
	for _, tc := range []struct{ shadow, renewal, want time.Time }{
		{}, {soon, time.Time{}, soon}, {time.Time{}, soon, soon}, {soon, later, soon}, {later, soon, soon},
	} {
		c := compilation{shadow: compile.Shadow{Next: tc.shadow}, renewal: tc.renewal}
		NewWithT(t).Expect(c.again()).To(Equal(tc.want))
	}
}

// Policies that were deleted before a term, or in it, do not take memory.
func TestCompilationsAreForgotten(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(1_900_000_000, 0)
	c := &compilations{}
	compileOf := func(id string) *compilation {
		return c.of(testpolicy.Make(id).Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1m").Obj(), compile.Everything(), now)
	}
	kept, gone, deleted := compileOf("shop/kept"), compileOf("shop/gone"), compileOf("shop/deleted")
	c.retain([]reconcile.Request{{NamespacedName: nameOf("shop/kept")}, {NamespacedName: nameOf("shop/deleted")}, {NamespacedName: nameOf("shop/new")}})
	g.Expect(compileOf("shop/gone")).NotTo(BeIdenticalTo(gone))
	g.Expect(compileOf("shop/deleted")).To(BeIdenticalTo(deleted))
	c.forget(nameOf("shop/deleted"))
	g.Expect(compileOf("shop/deleted")).NotTo(BeIdenticalTo(deleted))
	g.Expect(compileOf("shop/kept")).To(BeIdenticalTo(kept))
}
