// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// plansKey is the Redis hash that holds the plans.
var plansKey = testenv.PlansKey

var _ = Describe("A policy of the cluster", Serial, func() {
	var policy *v1alpha1.RateLimitPolicy
	var id string
	BeforeEach(func(ctx SpecContext) {
		id = newNamespace(ctx) + "/login"
		policy = testpolicy.Make(id).Limit("hourly", v1alpha1.AlgorithmFixedWindow, 2, "1h").Obj()
		Expect(api.Create(ctx, policy)).To(Succeed())
		Eventually(condition(policy, v1alpha1.ConditionReady)).WithContext(ctx).Should(Equal("True Ready"))
	})

	statuses := func(n int) (codes []int) {
		for range n {
			codes = append(codes, check(id))
		}
		return codes
	}
	setThreshold := func(ctx context.Context, threshold int64) {
		GinkgoHelper()
		Expect(api.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
		before := policy.DeepCopy()
		policy.Spec.Limits[0].Threshold = threshold
		Expect(api.Patch(ctx, policy, client.MergeFrom(before))).To(Succeed())
	}

	It("is enforced as soon as it is ready", func() {
		Expect(statuses(3)).To(Equal([]int{200, 200, 429}))
	})

	It("has an event once it denies", func(ctx SpecContext) {
		Expect(statuses(3)).To(Equal([]int{200, 200, 429}))
		Eventually(func(g Gomega, ctx SpecContext) (reasons []string) {
			list := &eventsv1.EventList{}
			g.Expect(api.List(ctx, list, client.InNamespace(policy.Namespace))).To(Succeed())
			for i := range list.Items {
				reasons = append(reasons, list.Items[i].Reason)
			}
			return reasons
		}).WithContext(ctx).Should(ContainElement("DenialsBegan"))
	})

	It("is enforced as edited as soon as the edit is ready, and keeps its counters", func(ctx SpecContext) {
		Expect(statuses(3)).To(Equal([]int{200, 200, 429}))
		setThreshold(ctx, 3)
		Eventually(condition(policy, v1alpha1.ConditionReady)).WithContext(ctx).Should(Equal("True Ready"))
		Expect(statuses(2)).To(Equal([]int{200, 429}))
		setThreshold(ctx, 1)
		Eventually(condition(policy, v1alpha1.ConditionReady)).WithContext(ctx).Should(Equal("True Ready"))
		Expect(statuses(1)).To(Equal([]int{429}))
	})

	It("stays enforced when an edit is not accepted", func(ctx SpecContext) {
		Expect(api.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
		before := policy.DeepCopy()
		policy.Spec.Matches = []v1alpha1.Match{{Paths: []string{"/a//b"}}}
		Expect(api.Patch(ctx, policy, client.MergeFrom(before))).To(Succeed())
		Eventually(condition(policy, v1alpha1.ConditionAccepted)).WithContext(ctx).Should(Equal("False InvalidSpec"))
		Expect(statuses(3)).To(Equal([]int{200, 200, 429}))
	})

	It("is wired once a check has applied to it", func(ctx SpecContext) {
		Expect(meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionWired)).To(BeNil(), "callers name it")
		Expect(api.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
		before := policy.DeepCopy()
		policy.Spec.Matches = []v1alpha1.Match{{Domain: policy.Namespace}}
		Expect(api.Patch(ctx, policy, client.MergeFrom(before))).To(Succeed())
		Eventually(condition(policy, v1alpha1.ConditionWired)).WithContext(ctx).Should(Equal("Unknown NoTraffic"))
		Eventually(condition(policy, v1alpha1.ConditionReady)).WithContext(ctx).Should(Equal("True Ready"))
		request, err := http.NewRequest(http.MethodPost, "http://"+checks+"/v1/check",
			strings.NewReader(`{"attributes":{"domain":"`+policy.Namespace+`"}}`))
		Expect(err).NotTo(HaveOccurred())
		status, _ := send(request)
		Expect(status).To(Equal(http.StatusOK))
		Eventually(condition(policy, v1alpha1.ConditionWired)).WithContext(ctx).Should(Equal("True TrafficSeen"))
	})

	It("reports that its target does not exist, and applies to the requests of the target", func(ctx SpecContext) {
		Expect(api.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
		before := policy.DeepCopy()
		policy.Spec.TargetRefs = testpolicy.Make(id).Target("HTTPRoute", "shop").Obj().Spec.TargetRefs
		Expect(api.Patch(ctx, policy, client.MergeFrom(before))).To(Succeed())
		Eventually(condition(policy, v1alpha1.ConditionWired)).WithContext(ctx).Should(Equal("False TargetNotFound"))
		Eventually(condition(policy, v1alpha1.ConditionReady)).WithContext(ctx).Should(Equal("True Ready"))
		target := "HTTPRoute/" + policy.Namespace + "/shop"
		request, err := http.NewRequest(http.MethodPost, "http://"+checks+"/v1/check", strings.NewReader(`{"attributes":{"targets":["`+target+`"]}}`))
		Expect(err).NotTo(HaveOccurred())
		status, body := send(request)
		Expect(status).To(Equal(http.StatusOK))
		Expect(body).To(ContainSubstring(id))
		Eventually(func() []string { return registry.ZRange(ctx, "weir:{registry}:traffic", 0, -1).Val() }).WithContext(ctx).
			Should(ContainElement(And(HavePrefix(id+" "), HaveSuffix(" "+target))))
		Consistently(condition(policy, v1alpha1.ConditionWired)).WithContext(ctx).Should(Equal("False TargetNotFound"))
	})

	It("is not found once it is deleted", func(ctx SpecContext) {
		Expect(api.Delete(ctx, policy)).To(Succeed())
		Eventually(ctx, func() int { return check(id) }).Should(Equal(http.StatusNotFound))
		Expect(registry.HExists(ctx, plansKey, id).Val()).To(BeFalse())
	})

	It("stays enforced while the registry is wiped, and is published again", func(ctx SpecContext) {
		Expect(registry.FlushAll(ctx).Err()).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(check(id)).NotTo(Equal(http.StatusNotFound))
			g.Expect(registry.HExists(ctx, plansKey, id).Val()).To(BeTrue())
		}).Should(Succeed())
		Eventually(condition(policy, v1alpha1.ConditionReady)).WithContext(ctx).Should(Equal("True Ready"))
	})

	It("follows its failure mode while Redis is down, and is enforced again afterwards", func(ctx SpecContext) {
		server.Stop()
		Eventually(condition(policy, v1alpha1.ConditionProgrammed)).WithContext(ctx).WithTimeout(40 * time.Second).
			Should(Equal("Unknown RegistryUnreachable"))
		Expect(check(id)).To(Equal(http.StatusOK))
		ready, _ := get(checks, "/readyz")
		Expect(ready).To(Equal(http.StatusOK), "an outage of Redis does not fail readiness")
		setThreshold(ctx, 5)
		server.Start()
		Eventually(condition(policy, v1alpha1.ConditionReady)).WithContext(ctx).Should(Equal("True Ready"))
		Expect(statuses(6)).To(Equal([]int{200, 200, 200, 200, 200, 429}), "the edit made during the outage, on an empty Redis")
	})
})

var _ = Describe("The manager", func() {
	It("lists its replicas", func(ctx SpecContext) {
		Eventually(ctx, func() string { _, body := get(checks, "/v1/policies"); return body }).
			Should(MatchRegexp(`"replicas":\[\{"name":"one","revision":\d+\}\]`))
	})

	It("counts policies by their conditions while it leads", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		shadowed := map[string]string{"good": time.Now().Add(time.Hour).Format(time.RFC3339)}
		for name, paths := range map[string]string{"good": "/a", "bad": "/a//b"} {
			policy := testpolicy.Make(namespace+"/"+name).Match(v1alpha1.Match{Paths: []string{paths}}).
				Limit("hourly", v1alpha1.AlgorithmFixedWindow, 2, "1h").Obj()
			policy.Annotations = map[string]string{v1alpha1.ShadowUntilAnnotation: shadowed[name]}
			Expect(api.Create(ctx, policy)).To(Succeed())
		}
		series := func(condition, status string, n int) string {
			return fmt.Sprintf("weir_policies{condition=%q,namespace=%q,status=%q} %d\n", condition, namespace, status, n)
		}
		Eventually(ctx, func() string { _, body := get(metrics, "/metrics"); return body }).Should(And(
			ContainSubstring("weir_leader 1\n"), ContainSubstring(series("Accepted", "True", 1)), ContainSubstring(series("Accepted", "False", 1)),
			ContainSubstring(series("Ready", "True", 1)), ContainSubstring(series("Ready", "False", 1)), ContainSubstring(series("Wired", "Unknown", 2)),
			ContainSubstring(fmt.Sprintf("weir_policies_shadowed{namespace=%q} 1\n", namespace))))
	})

	It("exports when the webhook certificate expires", func(ctx SpecContext) {
		Eventually(ctx, func() string { _, body := get(metrics, "/metrics"); return body }).
			Should(ContainSubstring(`weir_certificate_expiry_timestamp_seconds{certificate="webhook"}`))
	})

	It("serves the metrics of both halves", func() {
		_, body := get(metrics, "/metrics")
		Expect(body).To(ContainSubstring("weir_registry_following 1"))
		Expect(body).To(ContainSubstring("controller_runtime_reconcile_total"))
	})

	It("is healthy", func() {
		status, _ := get(checks, "/healthz")
		Expect(status).To(Equal(http.StatusOK))
	})
})

// condition returns "<status> <reason>" of a condition, once it is set for the
// current generation.
func condition(policy *v1alpha1.RateLimitPolicy, conditionType string) func(context.Context) string {
	return func(ctx context.Context) string {
		got := &v1alpha1.RateLimitPolicy{}
		if err := api.Get(ctx, client.ObjectKeyFromObject(policy), got); err != nil {
			return err.Error()
		}
		c := meta.FindStatusCondition(got.Status.Conditions, conditionType)
		if c == nil || c.ObservedGeneration != got.Generation {
			return "not observed yet"
		}
		return string(c.Status) + " " + c.Reason
	}
}
