// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// planOf returns a plan of a weight in the namespace.
func planOf(tb testing.TB, id string, weight int) *plan.Plan {
	tb.Helper()
	p := makePlan("x", 5)
	p.Namespace, p.Name, _ = strings.Cut(id, "/")
	p.UID = "uid-" + p.Name
	missing := weight - weightOf(tb, p)
	p.Denial.Message += strings.Repeat("x", max(0, missing/4))
	if got := weightOf(tb, p); got != weight {
		tb.Fatal("the weight is", got)
	}
	return p
}

func weightOf(tb testing.TB, p *plan.Plan) int {
	tb.Helper()
	data, err := plan.Encode(p)
	if err != nil {
		tb.Fatal(err)
	}
	usage := plan.UsageOf(p, len(data))
	return usage.Bytes
}

func (c *cluster) leadWithin(b plan.Budgets) *leader {
	c.tb.Helper()
	return c.leadBy(NewWriter(c.newClient(), testPrefix, WriterOptions{
		Installation: NewInstallation(testOwner, ""), LeaseDuration: testLease, Budgets: b, Logger: logger(c.tb, "leader"),
	}))
}

// shortageText returns why the plan waits, and "" if it does not.
func (l *leader) shortageText(id string) string {
	if o := l.Rollout(id).OverBudget; o != nil {
		return o.String()
	}
	return ""
}

func generation(p *plan.Plan, g int64) *plan.Plan { p.Generation = g; return p }

func TestOnlyGrowthIsRejected(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	b := plan.Budgets{Namespace: plan.Budget{Bytes: 40_000, Policies: 3}, Total: plan.Budget{Bytes: 100_000, Policies: 5}}
	l := c.leadWithin(b)
	l.MarkSynced(t.Context())
	c.Eventually(l.Err).Should(Succeed())
	set := func(l *leader, id string, size int, g int64) string {
		c.tb.Helper()
		c.Expect(l.Set(t.Context(), generation(planOf(t, id, size), g), plan.SetOptions{})).To(Succeed())
		return l.shortageText(id)
	}
	c.Expect(set(l, "a/1", 20_000, 1)).To(BeEmpty())
	c.Expect(set(l, "a/2", 18_000, 1)).To(BeEmpty())
	c.Expect(set(l, "a/3", 12_000, 1)).To(Equal("The policies of the Namespace use 38000 of 40000 bytes of memory for plans, and this one needs 12000 more"))
	c.Expect(programmed(l, "a/3")).To(BeFalse())
	c.Expect(set(l, "a/2", 20_020, 2)).To(ContainSubstring("needs 2020 more"))
	c.Expect(l.Rollout("a/2").Plan().Generation).To(BeEquivalentTo(1), "the last plan stays")
	c.Expect(set(l, "a/2", 20_000, 3)).To(BeEmpty())
	c.Expect(l.Rollout("a/2").Plan().Generation).To(BeEquivalentTo(3))

	for i := range 3 {
		c.Expect(set(l, fmt.Sprintf("b/%d", i), 12_000, 1)).To(BeEmpty())
	}
	c.Expect(set(l, "b/3", 12_000, 1)).To(HavePrefix("The policies of the Namespace use 3 of 3 policies"))
	c.Expect(set(l, "c/1", 12_000, 1)).To(Equal("All policies use 5 of 5 policies, and this one needs 1 more"))

	// A lower budget, and a new leader with it, reject nothing that runs.
	l.stop()
	<-l.done
	b.Namespace.Bytes, b.Total.Policies = 20_000, 2
	next := c.leadWithin(b)
	c.Eventually(next.Err).Should(Succeed())
	c.Expect(set(next, "a/2", 20_000, 3)).To(BeEmpty())
	c.Expect(set(next, "a/1", 19_980, 2)).To(BeEmpty(), "it shrinks")
	c.Expect(set(next, "a/1", 20_000, 3)).To(ContainSubstring("39980 of 20000 bytes of memory for plans, and this one needs 20 more"))
	next.MarkSynced(t.Context())
	c.Expect(c.client.HLen(t.Context(), c.scripts.keys[0]).Val()).To(BeEquivalentTo(5))
}

func TestOldestPolicyHasTheRoomFirst(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadWithin(plan.Budgets{Namespace: plan.Budget{Policies: 2}})
	l.MarkSynced(t.Context())
	c.Eventually(l.Err).Should(Succeed())
	at := time.Unix(1_900_000_000, 0)
	ages := map[string]int{"a/0": 5, "a/1": 4, "a/2": 0, "a/3": 2, "a/4": 1, "a/5": 1}
	set := func(id string) {
		c.tb.Helper()
		created := at.Add(time.Duration(ages[id]) * time.Second)
		c.Expect(l.Set(t.Context(), planOf(t, id, 12_000), plan.SetOptions{Created: created})).To(Succeed())
	}
	for i := range len(ages) {
		set(fmt.Sprintf("a/%d", i))
	}
	running := func() (ids []string) {
		for _, id := range l.Wanted() {
			set(id)
		}
		for i := range 6 {
			if id := fmt.Sprintf("a/%d", i); programmed(l, id) && l.shortageText(id) == "" {
				ids = append(ids, id)
			}
		}
		return ids
	}
	c.Expect(running()).To(Equal([]string{"a/0", "a/1"}), "the oldest do not displace what runs")
	for _, step := range []struct{ gone, next string }{{"a/0", "a/2"}, {"a/1", "a/4"}, {"a/2", "a/5"}, {"a/4", "a/3"}} {
		c.Expect(l.Delete(t.Context(), step.gone)).To(Succeed())
		c.Eventually(running).Should(And(HaveLen(2), ContainElement(step.next)), "after %s", step.gone)
	}
	c.Expect(l.Delete(t.Context(), "a/5")).To(Succeed())
	c.Expect(l.Delete(t.Context(), "a/3")).To(Succeed())
	c.Expect(running()).To(BeEmpty())
	c.Expect(l.usage.total).To(Equal(plan.Usage{}))
	c.Expect(l.usage.byNamespace).To(BeEmpty())
}

// What ran before a registry was lost has room before what did not.
func TestLostRegistryIsRestoredFirst(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadWithin(plan.Budgets{Total: plan.Budget{Policies: 2}})
	at := time.Unix(1_900_000_000, 0)
	set := func(name string, age time.Duration, ran bool) {
		c.Expect(l.Set(t.Context(), makePlan(name, 5), plan.SetOptions{Created: at.Add(age), WasProgrammed: ran})).To(Succeed())
	}
	set("new-and-old", 0, false)
	set("ran", time.Hour, true)
	set("ran-too", 2*time.Hour, true)
	set("new", time.Minute, false)
	c.Expect(l.shortageText("shop/new-and-old")).To(BeEmpty(), "not judged yet")
	l.MarkSynced(t.Context())
	c.Eventually(l.Err).Should(Succeed())
	c.Expect([]bool{programmed(l, "shop/ran"), programmed(l, "shop/ran-too")}).To(Equal([]bool{true, true}))
	c.Expect(l.shortageText("shop/new-and-old")).To(Equal("All policies use 2 of 2 policies, and this one needs 1 more"))
	c.Expect(l.Delete(t.Context(), "shop/ran")).To(Succeed())
	c.Eventually(l.Wanted).Should(Equal([]string{"shop/new-and-old"}))
	set("new-and-old", 0, false)
	c.Eventually(func() bool { return programmed(l, "shop/new-and-old") }).Should(BeTrue())
	c.Expect(l.shortageText("shop/new")).NotTo(BeEmpty())
}

// Of records without room the leader keeps less than a kilobyte each, also before it can judge them. The registry may be lost for
// long, and whatever is stored then must not take the memory that the budgets protect.
func TestRecordsWithoutRoomAreForgotten(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const size, waiting = 100_000, 300
	l := c.leadWithin(plan.Budgets{Namespace: plan.Budget{Bytes: 2 * size}, Total: plan.Budget{Bytes: 3 * size}})
	kept := func() (bytes int) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, waits := range l.waiting {
			bytes += len(waits.data)
			c.Expect(waits.record == nil || waits.hasData()).To(BeTrue())
		}
		return bytes
	}
	for i := range waiting {
		id := fmt.Sprintf("%c/%d", 'a'+i%3, i)
		c.Expect(l.Set(t.Context(), planOf(t, id, size), plan.SetOptions{Created: time.Unix(int64(i), 0)})).To(Succeed())
	}
	c.Expect(l.waiting).To(HaveLen(waiting))
	one, err := plan.Encode(planOf(t, "a/100", size))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(kept()).To(BeNumerically("~", 3*len(one), 20), "not judged yet: as much as may have room")
	l.MarkSynced(t.Context())
	c.Eventually(func() int64 { return c.client.HLen(t.Context(), c.scripts.keys[0]).Val() }).Should(BeEquivalentTo(3))
	c.Expect(kept()).To(BeZero())
	c.Expect(l.waiting).To(HaveLen(waiting - 3))
}

func TestRejectedPlanThatMayNotKeepTheLast(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadWithin(plan.Budgets{Namespace: plan.Budget{Bytes: 20_000}})
	l.MarkSynced(t.Context())
	c.Expect(l.Set(t.Context(), planOf(t, "a/1", 18_000), plan.SetOptions{})).To(Succeed())
	c.Expect(l.Set(t.Context(), generation(planOf(t, "a/1", 22_000), 6), plan.SetOptions{DropLast: true})).To(Succeed())
	c.Expect(l.shortageText("a/1")).To(ContainSubstring("0 of 20000 bytes of memory for plans, and this one needs 22000 more"))
	c.Expect(l.Rollout("a/1").Plan()).To(BeNil())
	c.Expect(c.client.HLen(t.Context(), c.scripts.keys[0]).Val()).To(BeZero())
	err := l.Set(t.Context(), planOf(t, "a/1", 10_000), plan.SetOptions{})
	c.Expect(err).To(MatchError(plan.ErrOlderGeneration), "also beside a plan that waits")
}

func TestBudgetUseIsExportedByTheLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	l := c.leadWithin(plan.Budgets{
		Namespace: plan.Budget{Policies: 4, Bytes: 20_000}, Total: plan.Budget{Policies: 8},
	})
	l.MarkSynced(t.Context())
	c.Expect(l.Set(t.Context(), planOf(t, "a/1", 15_000), plan.SetOptions{})).To(Succeed())
	c.Expect(testutil.CollectAndCompare(l.Writer, strings.NewReader(`
# HELP weir_budget_used_ratio Leader: used part of the budget of all Namespaces together, where 1 is all.
# TYPE weir_budget_used_ratio gauge
weir_budget_used_ratio{resource="policies"} 0.125
# HELP weir_namespace_budget_used_ratio Leader: used part of the budget of a Namespace, where 1 is all.
# TYPE weir_namespace_budget_used_ratio gauge
weir_namespace_budget_used_ratio{namespace="a",resource="bytes"} 0.75
weir_namespace_budget_used_ratio{namespace="a",resource="policies"} 0.25
`))).To(Succeed())
	l.stop()
	<-l.done
	c.Expect(testutil.CollectAndCount(l.Writer)).To(BeZero())
}
