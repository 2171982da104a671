// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func makeKeyGroup(name string, keys ...string) *plan.KeyGroup {
	return &plan.KeyGroup{Namespace: "shop", Name: name, UID: "uid-" + name, Generation: 1, Group: "gold", Keys: plan.NewKeyList(keys...)}
}

func makeException(name string, threshold int64) *plan.Exception {
	return &plan.Exception{
		Namespace: "shop", Name: name, UID: "uid-" + name, Generation: 1, Policy: "login", Key: []string{"acme"}, UntilMillis: 1,
		Action: plan.ActionLimit, Limits: []plan.ExceptionLimit{{Name: "burst", Threshold: threshold}},
	}
}

// Records of the three kinds may have one name. They share revisions, rollouts and new epochs.
func TestRecordsOfAllKindsReachTheReplicas(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadSynced(makePlan("login", 5))
	r := c.watch("a")
	records := []plan.Record{makePlan("same", 5), makeKeyGroup("same", "acme"), makeException("same", 9)}
	for _, record := range records {
		c.Expect(l.Set(t.Context(), record, plan.SetOptions{})).To(Succeed())
	}
	for _, record := range records {
		c.Eventually(func() bool { return l.Rollout(record.ID()).AllReplicasCurrent }).Should(BeTrue())
		c.Expect(l.Rollout(record.ID()).Record).To(Equal(plan.Outline(record)))
	}
	held := r.snapshot()
	c.Expect(held.Plans()).To(HaveLen(2))
	c.Expect(held.Groups()).To(Equal([]*plan.KeyGroup{makeKeyGroup("same", "acme")}))
	c.Expect(held.Exceptions()).To(Equal([]*plan.Exception{makeException("same", 9)}))

	c.Expect(l.Set(t.Context(), makeKeyGroup("same", "acme", "globex"), plan.SetOptions{})).To(Succeed())
	c.Eventually(func() int { return r.snapshot().Groups()[0].Keys.Len() }).Should(Equal(2))
	c.Expect(r.snapshot().Exceptions()[0]).To(BeIdenticalTo(held.Exceptions()[0]), "what did not change stays as it is")
	c.Expect(r.snapshot().Lookup("shop/same")).To(BeIdenticalTo(held.Lookup("shop/same")))

	c.Expect(c.client.FlushAll(t.Context()).Err()).To(Succeed())
	c.Eventually(func() int { return len(r.snapshot().Exceptions()) + len(r.snapshot().Groups()) }).Should(Equal(2))
	c.Eventually(func() int64 { return c.client.HLen(t.Context(), c.scripts.plansKey()).Val() }).Should(Equal(int64(4)))

	c.Expect(l.Delete(t.Context(), records[2].ID())).To(Succeed())
	c.Eventually(func() []*plan.Exception { return r.snapshot().Exceptions() }).Should(BeEmpty())
	c.Expect(l.Rollout("shop/same").Plan()).NotTo(BeNil())
}

func TestEachKindHasItsBudget(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadWithin(plan.Budgets{
		Namespace: plan.Budget{Policies: 1, Exceptions: 1, KeyBytes: 10_000}, Total: plan.Budget{KeyBytes: 50_000},
	})
	l.MarkSynced(t.Context())
	c.Eventually(l.Err).Should(Succeed())
	set := func(r plan.Record) string {
		c.tb.Helper()
		c.Expect(l.Set(t.Context(), r, plan.SetOptions{})).To(Succeed())
		return l.shortageText(r.ID())
	}
	c.Expect([]string{set(makePlan("a", 5)), set(makeException("a", 5)), set(makeKeyGroup("a", "k"))}).To(HaveEach(BeEmpty()))
	c.Expect(set(makePlan("b", 5))).To(Equal("The policies of the Namespace use 1 of 1 policies, and this one needs 1 more"))
	c.Expect(set(makeException("b", 5))).To(Equal("The exceptions of the Namespace use 1 of 1 live exceptions, and this one needs 1 more"))
	c.Expect(set(makeKeyGroup("b", "k", "l"))).To(MatchRegexp(`The key groups of the Namespace use \d+ of 10000 bytes of memory for keys, and this one needs \d+ more`))
	c.Expect(l.Delete(t.Context(), makeException("a", 5).ID())).To(Succeed())
	c.Eventually(l.Wanted).Should(Equal([]string{makeException("b", 5).ID()}))
	c.Expect(set(makeException("b", 5))).To(BeEmpty())
	c.Eventually(func() plan.Record { return l.Rollout(makeException("b", 5).ID()).Record }).ShouldNot(BeNil())
}

// Exceptions have a budget of memory, of a Namespace and in total. The next leader counts the same.
func TestExceptionsHaveABudgetOfMemory(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	large := func(name string) *plan.Exception {
		e := makeException(name, 5)
		e.Reason = strings.Repeat("r", plan.MaxReason)
		return e
	}
	b := plan.Budgets{Namespace: plan.Budget{ExceptionBytes: 40_000}, Total: plan.Budget{ExceptionBytes: 50_000}}
	l := c.leadWithin(b)
	set := func(e *plan.Exception) string {
		c.Expect(l.Set(t.Context(), e, plan.SetOptions{})).To(Succeed())
		return l.shortageText(e.ID())
	}
	l.MarkSynced(t.Context())
	c.Eventually(l.Err).Should(Succeed())
	c.Expect([]string{set(large("a")), set(large("b"))}).To(HaveEach(BeEmpty()))
	c.Expect(set(large("c"))).To(MatchRegexp(`^The exceptions of the Namespace use \d+ of 40000 bytes of memory for exceptions, and this one needs \d+ more$`))
	elsewhere := large("a")
	elsewhere.Namespace = "bank"
	c.Expect(set(elsewhere)).To(HavePrefix("All exceptions use "))
	usedBy := func(l *leader) plan.Usage {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.usage.total
	}
	used := usedBy(l)
	l.stop()
	<-l.done
	l = c.leadWithin(b)
	c.Eventually(l.Err).Should(Succeed())
	c.Expect(usedBy(l)).To(Equal(used))
	c.Expect(set(large("c"))).NotTo(BeEmpty())
}

// A leader that inherits records of all kinds deletes only the objects that are gone, and counts the budgets of all.
func TestInheritedRecordsOfAllKinds(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first := c.leadSynced(makePlan("login", 5), makeKeyGroup("gold", "k"), makeException("e", 5), makeException("gone", 5))
	first.stop()
	<-first.done
	second := c.leadWithin(plan.Budgets{Namespace: plan.Budget{Exceptions: 2}})
	c.Eventually(func() plan.Record { return second.Rollout("exception:shop/gone").Record }).Should(Equal(makeException("gone", 5)))
	c.Expect(second.Set(t.Context(), makeException("late", 5), plan.SetOptions{})).To(Succeed())
	c.Expect(second.shortageText("exception:shop/late")).NotTo(BeEmpty())
	var judged []string
	c.Expect(second.Sweep(t.Context(), func(_ context.Context, id string) (bool, error) {
		judged = append(judged, id)
		return id != "exception:shop/gone", nil
	})).To(Succeed())
	c.Expect(judged).To(ConsistOf("shop/login", "keygroup:shop/gold", "exception:shop/e", "exception:shop/gone"))
	c.Eventually(second.Wanted).Should(Equal([]string{"exception:shop/late"}))
	c.Expect(second.Set(t.Context(), makeException("late", 5), plan.SetOptions{})).To(Succeed())
	c.Expect(second.shortageText("exception:shop/late")).To(BeEmpty())
}
