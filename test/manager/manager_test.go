// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

func TestManagerEnforcesThePoliciesOfTheCluster(t *testing.T) {
	c := startCluster(t)
	p := c.manager()

	t.Run("a policy is enforced, edited and deleted", func(t *testing.T) {
		g := NewWithT(t)
		c.apply("new", 2)
		g.Eventually(p.Enforces("new")).Should(Equal(int64(2)))
		g.Eventually(c.condition("new", v1alpha1.ConditionReady)).Should(Equal("True/Ready"))
		var statuses []int
		for range 3 {
			status, _, err := p.Check(`{"policies":["shop/new"],"key":"alice"}`)
			g.Expect(err).NotTo(HaveOccurred())
			statuses = append(statuses, status)
		}
		g.Expect(statuses).To(Equal([]int{200, 200, 429}))
		c.edit("new", 3)
		g.Eventually(p.Enforces("new")).Should(Equal(int64(3)))
		g.Expect(c.client.Delete(t.Context(), c.policy("new", 1))).To(Succeed())
		g.Eventually(p.Enforces("new")).Should(Equal(int64(-404)))
	})

	t.Run("the status reports an invalid policy", func(t *testing.T) {
		c.create(testpolicy.Make("shop/bad").Limit("l", v1alpha1.AlgorithmGCRA, 5, "1s").
			Match(v1alpha1.Match{Paths: []string{"/a//b"}}).Obj())
		NewWithT(t).Eventually(c.condition("bad", v1alpha1.ConditionAccepted)).Should(Equal("False/InvalidSpec"))
	})

	t.Run("a wiped registry is published again and no decision is lost", func(t *testing.T) {
		g := NewWithT(t)
		c.apply("kept", 5)
		g.Eventually(p.Enforces("kept")).Should(Equal(int64(5)))
		client := redis.NewClient(&redis.Options{Addr: c.redis.Addr})
		defer func() { g.Expect(client.Close()).To(Succeed()) }()
		g.Expect(client.FlushAll(t.Context()).Err()).To(Succeed())
		g.Eventually(func() bool {
			g.Expect(p.Enforces("kept")()).To(Equal(int64(5)))
			return client.HExists(t.Context(), testenv.PlansKey, "shop/kept").Val()
		}, process.Timeout, "5ms").Should(BeTrue())
	})
}

func TestManagerDecidesWithoutTheAPIServer(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	p := c.manager(shortLease...)
	c.apply("p", 5)
	g.Eventually(p.Enforces("p")).Should(Equal(int64(5)))

	ctx, stop := context.WithCancel(t.Context())
	var worst time.Duration
	var failed []string
	var steady sync.WaitGroup
	steady.Go(func() {
		for ctx.Err() == nil {
			start := time.Now()
			if got := p.Enforces("p")(); got != 5 && got != 6 {
				failed = append(failed, strconv.FormatInt(got, 10))
			}
			worst = max(worst, time.Since(start))
		}
	})
	c.api.Stop()
	again := c.manager(append([]string{"--replica", "another"}, shortLease...)...)
	g.Eventually(again.Enforces("p")).Should(Equal(int64(5)), "a process that starts during the outage decides")
	// Longer than the lease duration: the leader has lost its lease.
	g.Eventually(p.Log.String).Should(ContainSubstring("Not leading"))
	g.Expect(again.Enforces("p")()).To(Equal(int64(5)))
	g.Expect(p.Status("/healthz")).To(Equal(http.StatusOK))
	c.api.Start()
	g.Eventually(func() error { return c.client.List(t.Context(), &v1alpha1.RateLimitPolicyList{}) }).Should(Succeed())
	c.edit("p", 6)
	g.Eventually(p.Enforces("p")).Should(Equal(int64(6)), "edits are published again")
	g.Eventually(again.Enforces("p")).Should(Equal(int64(6)))
	stop()
	steady.Wait()
	g.Expect(failed).To(BeEmpty(), "no decision was lost")
	t.Logf("slowest decision during the outage: %v", worst)
}

func TestManagersFailOver(t *testing.T) {
	c := startCluster(t)
	all := []*process.Running{c.manager(shortLease...), c.manager(shortLease...), c.manager(shortLease...)}
	without := func(excluded *process.Running) []*process.Running {
		return slices.DeleteFunc(slices.Clone(all), func(p *process.Running) bool { return p == excluded })
	}
	expectThreshold := func(g *WithT, among []*process.Running, want int64) {
		t.Helper()
		for _, p := range among {
			g.Eventually(p.Enforces("p")).Should(Equal(want))
		}
	}
	c.apply("p", 10)
	expectThreshold(NewWithT(t), all, 10)

	t.Run("a frozen leader is replaced, and its writes are rejected when it thaws", func(t *testing.T) {
		g := NewWithT(t)
		terms := func() (n int) {
			for _, p := range all {
				n += p.Logged("Took a term in the registry")()
			}
			return n
		}
		// On a busy machine the next leader may lose the Lease, too. The attempt is then repeated.
		for threshold, conclusive := int64(11), false; !conclusive; threshold += 2 {
			g.Expect(threshold).To(BeNumerically("<", 30), "the Lease does not stay")
			var frozen *process.Running
			g.Eventually(func() *process.Running { frozen = c.leader(all)(); return frozen }).ShouldNot(BeNil())
			testenv.Halt(t, frozen.Cmd.Process)
			others := without(frozen)
			g.Eventually(c.leader(others)).ShouldNot(BeNil())
			c.edit("p", threshold)
			expectThreshold(g, others, threshold)
			c.edit("p", threshold+1)
			expectThreshold(g, others, threshold+1)
			before, transitions := terms(), c.leaseTransitions()
			frozen.Signal(t, syscall.SIGCONT) // it still considers itself the leader for the renew deadline
			expectThreshold(g, all, threshold+1)
			g.Consistently(func(g Gomega) {
				for _, p := range all {
					g.Expect(p.Enforces("p")()).To(Equal(threshold+1), "no stale plan is written")
				}
				after := terms()
				conclusive = c.leaseTransitions() == transitions
				if conclusive {
					g.Expect(after).To(Equal(before), "the leader is not deposed")
				}
			}, "7s").Should(Succeed())
		}
	})

	t.Run("a killed leader is replaced", func(t *testing.T) {
		g := NewWithT(t)
		var killed *process.Running
		g.Eventually(func() *process.Running { killed = c.leader(all)(); return killed }).ShouldNot(BeNil())
		killed.Kill(t)
		c.edit("p", 100)
		expectThreshold(g, without(killed), 100)
		g.Eventually(c.condition("p", v1alpha1.ConditionEnforced)).Should(Equal("True/Enforced"))
	})
}

// Each half runs in a process of its own; the deciding one has no kubeconfig.
func TestManagerHalvesInSeparateProcesses(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	c.manager("--decisions=false")
	c.apply("p", 5)
	g.Eventually(c.condition("p", v1alpha1.ConditionEnforced)).Should(Equal("False/NoReplicas"))
	metrics := testenv.FreeAddr(t)
	t.Setenv("KUBECONFIG", "/no/such/file") // nor the kubeconfig of the developer
	p := process.Start(t, "manager", "--controllers=false", "--redis-url", c.redis.URL, "--store-timeout", "60s",
		"--metrics-address", metrics)
	g.Eventually(p.Enforces("p")).Should(Equal(int64(5)))
	g.Eventually(c.condition("p", v1alpha1.ConditionEnforced)).Should(Equal("True/Enforced"))
	state, body := p.Operator("any", "GET", "/v1/state?policy=shop/p&key=k", "")
	g.Expect(state).To(Equal(http.StatusNotFound), "the calls on state are disabled: "+body)
	response, err := http.Get("http://" + metrics + "/metrics")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(response.Body.Close()).To(Succeed()) }()
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	p.Kill(t)
	g.Eventually(c.condition("p", v1alpha1.ConditionEnforced)).Should(Equal("False/NoReplicas"))

	// A replica of another installation does not use the plans of this one.
	stranger := process.Start(t, "manager", "--controllers=false", "--redis-url", c.redis.URL, "--installation", "another")
	g.Eventually(stranger.Log.String).Should(ContainSubstring("the registry belongs to another installation"))
	g.Expect(stranger.Enforces("p")()).NotTo(Equal(int64(5)))
}

// A stopping process applies edits until it is drained.
func TestManagerAppliesEditsWhileItDrains(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	c.manager("--decisions=false")
	draining := c.manager("--controllers=false", "--drain-delay", "1h", "--replica", "draining")
	drained := c.manager("--controllers=false", "--drain-delay", "300ms", "--replica", "drained")
	c.apply("p", 5)
	g.Eventually(draining.Enforces("p")).Should(Equal(int64(5)))
	state, body := draining.Operator("unknown", "GET", "/v1/state?policy=shop/p&key=k", "")
	g.Expect(state).To(Equal(http.StatusUnauthorized), "a process without controllers authorizes with the API server: "+body)
	draining.Signal(t, syscall.SIGTERM)
	g.Eventually(func() int { return draining.Status("/readyz") }).Should(Equal(http.StatusServiceUnavailable))
	c.edit("p", 6)
	g.Eventually(draining.Enforces("p")).Should(Equal(int64(6)))
	draining.Kill(t)

	g.Eventually(c.condition("p", v1alpha1.ConditionEnforced)).Should(Equal("True/Enforced"))
	drained.Signal(t, syscall.SIGTERM)
	g.Expect(drained.Cmd.Wait()).To(Succeed())
	g.Eventually(c.condition("p", v1alpha1.ConditionEnforced)).Should(Equal("False/NoReplicas"))
}

func TestManagerTenancy(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	p := c.manager("--tenancy", "Namespace")
	c.create(testpolicy.Make("shop/p").Match(v1alpha1.Match{Hosts: []string{"shop.example"}}).
		Limit("hourly", v1alpha1.AlgorithmFixedWindow, 3, "1h").Obj())
	g.Eventually(c.condition("p", v1alpha1.ConditionAccepted)).Should(Equal("False/MatchNotPermitted"))
	g.Expect(p.Enforces("p")()).NotTo(Equal(int64(3)))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	annotate := func(value string) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"ratelimit.weir.dev/hosts":%s}}}`, value)
		g.Expect(c.client.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	}
	annotate(`"shop.example"`)
	g.Eventually(p.Enforces("p")).Should(Equal(int64(3)))
	annotate(`null`)
	g.Eventually(p.Enforces("p")).Should(Equal(int64(-404)))
}
