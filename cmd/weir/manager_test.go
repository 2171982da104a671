// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/testenv"
	"github.com/weir-dev/weir/internal/testenv/kube"
	"github.com/weir-dev/weir/internal/testenv/testpolicy"
)

// cluster is a real kube-apiserver and a real Redis for manager processes.
type cluster struct {
	tb         testing.TB
	api        *kube.APIServer
	client     client.Client
	redis      *testenv.Redis
	kubeconfig string
}

func startCluster(tb testing.TB) *cluster {
	tb.Helper()
	c := &cluster{tb: tb, api: kube.StartAPIServer(tb), redis: testenv.StartRedis(tb)}
	c.client = c.api.Client()
	c.kubeconfig = filepath.Join(tb.TempDir(), "kubeconfig")
	if err := os.WriteFile(c.kubeconfig, c.api.Env.KubeConfig, 0o600); err != nil {
		tb.Fatal(err)
	}
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	return c
}

// manager starts a manager with a short lease and without a webhook.
func (c *cluster) manager(args ...string) *weirProcess {
	c.tb.Helper()
	return startWeir(c.tb, c.managerArgs(args...)...)
}

func (c *cluster) managerArgs(args ...string) []string {
	return append([]string{
		"manager", "--redis-url", c.redis.URL, "--kubeconfig", c.kubeconfig, "--tenancy", "Cluster",
		"--lease-duration", "3s", "--lease-renew-deadline", "2s", "--lease-retry-period", "500ms",
		"--store-timeout", "2s", "--webhook-address", "",
	}, args...)
}

func (c *cluster) create(object client.Object) {
	c.tb.Helper()
	if err := c.client.Create(c.tb.Context(), object); err != nil {
		c.tb.Fatal(err)
	}
}

func (c *cluster) policy(name string, threshold int64) *v1alpha1.RateLimitPolicy {
	return testpolicy.Make("shop/"+name).Limit("hourly", v1alpha1.AlgorithmFixedWindow, threshold, "1h").Obj()
}

func (c *cluster) apply(name string, threshold int64) {
	c.tb.Helper()
	c.create(c.policy(name, threshold))
}

func (c *cluster) edit(name string, threshold int64) {
	c.tb.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/limits/0/threshold","value":%d}]`, threshold)
	if err := c.client.Patch(c.tb.Context(), c.policy(name, 1), client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		c.tb.Fatal(err)
	}
}

// condition returns "<status>/<reason>" of a condition of the policy.
func (c *cluster) condition(name, kind string) func() string {
	return func() string {
		policy := &v1alpha1.RateLimitPolicy{}
		if err := c.client.Get(c.tb.Context(), types.NamespacedName{Namespace: "shop", Name: name}, policy); err != nil {
			return err.Error()
		}
		if found := apimeta.FindStatusCondition(policy.Status.Conditions, kind); found != nil {
			return string(found.Status) + "/" + found.Reason
		}
		return "absent"
	}
}

// leader returns the process that holds the lease, or nil.
func (c *cluster) leader(among []*weirProcess) func() *weirProcess {
	return func() *weirProcess {
		lease := &coordinationv1.Lease{}
		name := types.NamespacedName{Namespace: "default", Name: "weir-manager"}
		if err := c.client.Get(c.tb.Context(), name, lease); err != nil || lease.Spec.HolderIdentity == nil {
			return nil
		}
		for _, p := range among {
			if strings.HasSuffix(*lease.Spec.HolderIdentity, fmt.Sprintf("-%d", p.cmd.Process.Pid)) {
				return p
			}
		}
		return nil
	}
}

// threshold returns the threshold that the process enforces; 0 without a response, -404
// for an unknown policy.
func (p *weirProcess) threshold(name string) int64 {
	response, err := http.Post("http://"+p.http+"/v1/check", "application/json",
		strings.NewReader(`{"policies":["shop/`+name+`"],"key":"t","peek":true}`))
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct{ Limits []struct{ Threshold int64 } }
	if response.StatusCode == http.StatusNotFound {
		return -404
	}
	if json.NewDecoder(response.Body).Decode(&answer) != nil || len(answer.Limits) == 0 {
		return 0
	}
	return answer.Limits[0].Threshold
}

func (p *weirProcess) enforces(name string) func() int64 {
	return func() int64 { return p.threshold(name) }
}

func TestManagerEnforcesThePoliciesOfTheCluster(t *testing.T) {
	c := startCluster(t)
	p := c.manager()

	t.Run("a policy is enforced, edited and deleted", func(t *testing.T) {
		g := NewWithT(t)
		c.apply("new", 2)
		g.Eventually(p.enforces("new"), "20s").Should(Equal(int64(2)))
		g.Eventually(c.condition("new", v1alpha1.ConditionReady), "10s").Should(Equal("True/Ready"))
		var statuses []int
		for range 3 {
			status, _, err := p.check(`{"policies":["shop/new"],"key":"alice"}`)
			g.Expect(err).NotTo(HaveOccurred())
			statuses = append(statuses, status)
		}
		g.Expect(statuses).To(Equal([]int{200, 200, 429}))
		c.edit("new", 3)
		g.Eventually(p.enforces("new")).Should(Equal(int64(3)))
		g.Expect(c.client.Delete(t.Context(), c.policy("new", 1))).To(Succeed())
		g.Eventually(p.enforces("new")).Should(Equal(int64(-404)))
	})

	t.Run("the status reports an invalid policy", func(t *testing.T) {
		c.create(testpolicy.Make("shop/bad").Limit("l", v1alpha1.AlgorithmGCRA, 5, "1s").
			Match(v1alpha1.Match{Paths: []string{"/a//b"}}).Obj())
		NewWithT(t).Eventually(c.condition("bad", v1alpha1.ConditionAccepted)).Should(Equal("False/InvalidSpec"))
	})

	t.Run("a wiped registry is published again within 2 s and no decision is lost", func(t *testing.T) {
		g := NewWithT(t)
		c.apply("kept", 5)
		g.Eventually(p.enforces("kept")).Should(Equal(int64(5)))
		client := redis.NewClient(&redis.Options{Addr: c.redis.Addr})
		defer func() { g.Expect(client.Close()).To(Succeed()) }()
		g.Expect(client.FlushAll(t.Context()).Err()).To(Succeed())
		wiped := time.Now()
		g.Eventually(func() bool {
			g.Expect(p.threshold("kept")).To(Equal(int64(5)))
			return client.HExists(t.Context(), testenv.PlansKey(plan.Version), "shop/kept").Val()
		}, "5s", "5ms").Should(BeTrue())
		g.Expect(time.Since(wiped)).To(BeNumerically("<", 2*time.Second))
	})
}

func TestManagerDecidesWithoutTheAPIServer(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	p := c.manager()
	c.apply("p", 5)
	g.Eventually(p.enforces("p"), "20s").Should(Equal(int64(5)))

	ctx, stop := context.WithCancel(t.Context())
	var worst time.Duration
	var failed []string
	var steady sync.WaitGroup
	steady.Go(func() {
		for ctx.Err() == nil {
			start := time.Now()
			if got := p.threshold("p"); got != 5 && got != 6 {
				failed = append(failed, strconv.FormatInt(got, 10))
			}
			worst = max(worst, time.Since(start))
		}
	})
	c.api.Stop()
	again := c.manager("--replica", "another")
	g.Eventually(again.enforces("p"), "20s").Should(Equal(int64(5)), "a process that starts during the outage decides")
	// Longer than the lease duration: the leader has lost its lease.
	g.Eventually(p.log.String, "20s").Should(ContainSubstring("Not leading"))
	g.Expect(again.threshold("p")).To(Equal(int64(5)))
	g.Expect(status(p, "/healthz")).To(Equal(http.StatusOK))
	c.api.Start()
	g.Eventually(func() error { return c.client.List(t.Context(), &v1alpha1.RateLimitPolicyList{}) }, "30s").Should(Succeed())
	c.edit("p", 6)
	g.Eventually(p.enforces("p"), "30s").Should(Equal(int64(6)), "edits are published again")
	g.Eventually(again.enforces("p"), "10s").Should(Equal(int64(6)))
	stop()
	steady.Wait()
	g.Expect(failed).To(BeEmpty(), "no decision was lost")
	t.Logf("slowest decision during the outage: %v", worst)
}

func status(p *weirProcess, path string) int {
	response, err := http.Get("http://" + p.http + path)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode
}

func TestManagersFailOver(t *testing.T) {
	c := startCluster(t)
	// A frozen leader still considers itself the leader for the renew deadline.
	slow := []string{"--lease-duration", "6s", "--lease-renew-deadline", "5s"}
	all := []*weirProcess{c.manager(slow...), c.manager(slow...), c.manager(slow...)}
	without := func(excluded *weirProcess) []*weirProcess {
		return slices.DeleteFunc(slices.Clone(all), func(p *weirProcess) bool { return p == excluded })
	}
	expectThreshold := func(g *WithT, among []*weirProcess, want int64) {
		t.Helper()
		for _, p := range among {
			g.Eventually(p.enforces("p"), "30s").Should(Equal(want))
		}
	}
	c.apply("p", 10)
	expectThreshold(NewWithT(t), all, 10)

	t.Run("a frozen leader is replaced, and its writes are rejected when it thaws", func(t *testing.T) {
		g := NewWithT(t)
		g.Eventually(c.leader(all), "10s").ShouldNot(BeNil())
		frozen := c.leader(all)()
		testenv.Halt(t, frozen.cmd.Process)
		others := without(frozen)
		g.Eventually(c.leader(others), "30s").ShouldNot(BeNil())
		c.edit("p", 11)
		expectThreshold(g, others, 11)
		c.edit("p", 12)
		expectThreshold(g, others, 12)
		terms := func() (n int) {
			for _, p := range all {
				n += strings.Count(p.log.String(), "Took a term in the registry")
			}
			return n
		}
		before := terms()
		g.Expect(frozen.cmd.Process.Signal(syscall.SIGCONT)).To(Succeed())
		expectThreshold(g, all, 12)
		g.Consistently(func(g Gomega) {
			g.Expect([]int64{all[0].threshold("p"), all[1].threshold("p"), all[2].threshold("p")}).
				To(Equal([]int64{12, 12, 12}), "no stale plan is written")
			g.Expect(terms()).To(Equal(before), "the leader is not deposed")
		}, "7s").Should(Succeed())
	})

	t.Run("a killed leader is replaced", func(t *testing.T) {
		g := NewWithT(t)
		g.Eventually(c.leader(all), "10s").ShouldNot(BeNil())
		killed := c.leader(all)()
		g.Expect(killed.cmd.Process.Kill()).To(Succeed())
		c.edit("p", 13)
		expectThreshold(g, without(killed), 13)
		g.Eventually(c.condition("p", v1alpha1.ConditionEnforced), "10s").Should(Equal("True/Enforced"))
	})
}

// Each half runs in a process of its own; the deciding one has no kubeconfig.
func TestManagerHalvesInSeparateProcesses(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	c.manager("--decisions=false")
	c.apply("p", 5)
	g.Eventually(c.condition("p", v1alpha1.ConditionEnforced), "20s").Should(Equal("False/NoReplicas"))
	metrics := testenv.FreeAddr(t)
	t.Setenv("KUBECONFIG", "/no/such/file") // nor the kubeconfig of the developer
	p := startWeir(t, "manager", "--controllers=false", "--redis-url", c.redis.URL, "--store-timeout", "2s",
		"--metrics-address", metrics)
	g.Eventually(p.enforces("p"), "20s").Should(Equal(int64(5)))
	g.Eventually(c.condition("p", v1alpha1.ConditionEnforced), "10s").Should(Equal("True/Enforced"))
	state, body := p.operator("any", "GET", "/v1/state?policy=shop/p&key=k", "")
	g.Expect(state).To(Equal(http.StatusNotFound), "the calls on state are disabled: "+body)
	response, err := http.Get("http://" + metrics + "/metrics")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(response.Body.Close()).To(Succeed()) }()
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	g.Expect(p.cmd.Process.Kill()).To(Succeed())
	g.Eventually(c.condition("p", v1alpha1.ConditionEnforced), "30s").Should(Equal("False/NoReplicas"))

	// A replica of another installation does not use the plans of this one.
	stranger := startWeir(t, "manager", "--controllers=false", "--redis-url", c.redis.URL, "--installation", "another")
	g.Eventually(stranger.log.String, "10s").Should(ContainSubstring("the registry belongs to another installation"))
	g.Expect(stranger.threshold("p")).NotTo(Equal(int64(5)))
}

func TestManagerRejectsInvalidFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no Redis":            {nil, "--redis-url: is required"},
		"nothing to do":       {[]string{"--redis-url", "redis://x", "--controllers=false", "--decisions=false"}, "at least one must be true"},
		"an unknown tenancy":  {[]string{"--redis-url", "redis://x", "--tenancy", "Maybe"}, "--tenancy \"Maybe\": must be Namespace or Cluster"},
		"both lists":          {[]string{"--redis-url", "redis://x", "--watch-namespaces", "a", "--exclude-namespaces", "b"}, "--watch-namespaces, --exclude-namespaces: choose one"},
		"a namespace":         {[]string{"--redis-url", "redis://x", "--watch-namespaces", "a,B"}, `"B": a lowercase`},
		"a budget of keys":    {[]string{"--redis-url", "redis://x", "--max-namespace-key-bytes", "-1"}, "--max-namespace-key-bytes -1: must not be negative"},
		"a budget":            {[]string{"--redis-url", "redis://x", "--max-plan-bytes", "-1"}, "--max-plan-bytes -1: must not be negative"},
		"an installation":     {[]string{"--redis-url", "redis://x", "--installation", "a/b"}, "--installation"},
		"a replica":           {[]string{"--redis-url", "redis://x", "--replica", "a/b"}, "--replica"},
		"a missing config":    {[]string{"--redis-url", "redis://x", "--kubeconfig", "/no/such/file"}, "--kubeconfig: stat /no/such/file"},
		"a missing password":  {[]string{"--redis-url", "redis://x", "--controllers=false", "--redis-password-file", "/no/such/file"}, "open /no/such/file"},
		"a bad URL":           {[]string{"--redis-url", "http://x", "--controllers=false"}, "--redis-url: scheme \"http\""},
		"half a certificate":  {[]string{"--redis-url", "redis://x", "--webhook-cert-file", "x"}, "--webhook-cert-file: needs --webhook-key-file"},
		"the other half":      {[]string{"--redis-url", "redis://x", "--webhook-key-file", "x"}, "--webhook-key-file: needs --webhook-cert-file"},
		"no Secret":           {[]string{"--redis-url", "redis://x", "--webhook-secret", ""}, "--webhook-secret"},
		"a deadline too long": {[]string{"--redis-url", "redis://x", "--lease-renew-deadline", "20s"}, "--lease-renew-deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newManagerCommand()
			cmd.SetArgs(tc.args)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			NewWithT(t).Expect(cmd.ExecuteContext(t.Context())).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

// A stopping process applies edits until it is drained.
func TestManagerAppliesEditsWhileItDrains(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	c.manager("--decisions=false")
	p := c.manager("--controllers=false", "--drain-delay", "3s")
	c.apply("p", 5)
	g.Eventually(p.enforces("p"), "20s").Should(Equal(int64(5)))
	state, body := p.operator("unknown", "GET", "/v1/state?policy=shop/p&key=k", "")
	g.Expect(state).To(Equal(http.StatusUnauthorized), "a process without controllers authorizes with the API server: "+body)
	g.Expect(p.cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
	g.Eventually(func() int { return status(p, "/readyz") }, "5s", "5ms").Should(Equal(http.StatusServiceUnavailable))
	c.edit("p", 6)
	g.Eventually(p.enforces("p"), "2s", "5ms").Should(Equal(int64(6)))
	g.Expect(p.cmd.Wait()).To(Succeed())
	g.Eventually(c.condition("p", v1alpha1.ConditionEnforced), "30s").Should(Equal("False/NoReplicas"))
}

func TestManagerTenancy(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	p := c.manager("--tenancy", "Namespace")
	c.create(testpolicy.Make("shop/p").Match(v1alpha1.Match{Hosts: []string{"shop.example"}}).
		Limit("hourly", v1alpha1.AlgorithmFixedWindow, 3, "1h").Obj())
	g.Eventually(c.condition("p", v1alpha1.ConditionAccepted), "20s").Should(Equal("False/MatchNotPermitted"))
	g.Expect(p.threshold("p")).NotTo(Equal(int64(3)))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	annotate := func(value string) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"ratelimit.weir.dev/hosts":%s}}}`, value)
		g.Expect(c.client.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	}
	annotate(`"shop.example"`)
	g.Eventually(p.enforces("p"), "10s").Should(Equal(int64(3)))
	annotate(`null`)
	g.Eventually(p.enforces("p"), "10s").Should(Equal(int64(-404)))
}
