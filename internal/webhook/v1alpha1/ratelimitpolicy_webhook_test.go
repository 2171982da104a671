// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/warning"
	webhook "github.com/weir-dev/weir/internal/webhook/v1alpha1"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

func good(namespace, name string) *testpolicy.Builder {
	return testpolicy.Make(namespace+"/"+name).Key(testpolicy.PrincipalPart()).
		Limit("burst", v1alpha1.AlgorithmFixedWindow, 5, "1m")
}

// invalid returns a policy that is valid by the schema but does not compile.
func invalid(namespace string) *v1alpha1.RateLimitPolicy {
	return good(namespace, "invalid").Match(v1alpha1.Match{Paths: []string{"/a//b"}}).Obj()
}

// rejectFields matches the rejection of a policy that names these fields.
func rejectFields(fields ...string) gomegatypes.GomegaMatcher {
	return WithTransform(func(err error) (named []string) {
		var status apierrors.APIStatus
		if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
			return []string{"not rejected as invalid: " + err.Error()}
		}
		for _, cause := range status.Status().Details.Causes {
			named = append(named, cause.Field)
		}
		return named
	}, Equal(fields))
}

var _ = Describe("The webhook", func() {
	var namespace string
	var stop func()
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx, nil)
		stop = serve(ctx, namespace, compile.TenancyCluster)
		awaitWebhook(ctx, namespace)
	})

	It("warns of policies without room in the budget", func(ctx SpecContext) {
		warned := func(policy *v1alpha1.RateLimitPolicy, apply func(context.Context, client.Object) error) func() []string {
			return func() []string {
				Expect(apply(ctx, policy)).To(Succeed())
				return received.take()
			}
		}
		dryRun := func(ctx context.Context, object client.Object) error {
			object.SetResourceVersion("")
			return api.Create(ctx, object, client.DryRunAll)
		}
		for i := range budget.Policies {
			Expect(api.Create(ctx, good(namespace, fmt.Sprintf("p%d", i)).Obj())).To(Succeed())
		}
		received.take()
		// The webhook reads from a cache.
		Eventually(warned(good(namespace, "another").Obj(), dryRun)).WithContext(ctx).Should(ConsistOf(
			"spec: the policy will probably not be accepted (OverBudget): The policies of the Namespace use 20 of 20 policies, and this one needs 1 more"))
		b := good(namespace, "p1")
		for i := range 14 {
			var paths []string
			for j := range 32 {
				paths = append(paths, fmt.Sprintf("/%d/%d/%s", i, j, strings.Repeat("x", 100)))
			}
			b.Match(v1alpha1.Match{Paths: paths})
		}
		large := b.Obj()
		Expect(api.Delete(ctx, good(namespace, "p0").Obj())).To(Succeed())
		Eventually(warned(good(namespace, "another").Obj(), dryRun)).WithContext(ctx).Should(BeEmpty())
		update := func(ctx context.Context, object client.Object) error {
			was := &v1alpha1.RateLimitPolicy{}
			Expect(api.Get(ctx, client.ObjectKeyFromObject(object), was)).To(Succeed())
			object.SetResourceVersion(was.ResourceVersion)
			return api.Update(ctx, object, client.DryRunAll)
		}
		Expect(warned(large, update)()).To(ConsistOf(ContainSubstring("bytes of memory for plans, and this one needs ")))
	})

	It("counts its answers", func(ctx SpecContext) {
		before := []float64{reviewed("accepted"), reviewed("warned"), reviewed("rejected")}
		Expect(api.Create(ctx, good(namespace, "p").Obj())).To(Succeed())
		Expect(api.Create(ctx, good(namespace, "q").Limit("daily", v1alpha1.AlgorithmSlidingLog, 90000, "24h").Obj())).To(Succeed())
		Expect(api.Create(ctx, invalid(namespace))).NotTo(Succeed())
		after := []float64{reviewed("accepted"), reviewed("warned"), reviewed("rejected")}
		for i := range after {
			Expect(after[i]-before[i]).To(Equal(1.0), "result %d", i)
		}
		received.take()
	})

	It("accepts the sample policies without warnings", func(ctx SpecContext) {
		samples, err := filepath.Glob("../../../config/samples/*.yaml")
		Expect(err).NotTo(HaveOccurred())
		Expect(samples).NotTo(BeEmpty())
		createSampleGroups(ctx, namespace)
		for _, sample := range samples {
			data, err := os.ReadFile(sample)
			Expect(err).NotTo(HaveOccurred())
			policy := &v1alpha1.RateLimitPolicy{}
			Expect(yaml.UnmarshalStrict(data, policy)).To(Succeed())
			policy.Namespace = namespace
			Expect(api.Create(ctx, policy)).To(Succeed(), sample)
		}
		Expect(received.take()).To(BeEmpty())
	})

	DescribeTable("rejects what the controller would not accept, and names the field",
		func(ctx SpecContext, change func(*testpolicy.Builder), fields ...string) {
			b := good(namespace, "p")
			change(b)
			Expect(api.Create(ctx, b.Obj())).To(rejectFields(fields...))
			Expect(api.Create(ctx, good(namespace, "p").Obj())).To(Succeed())
			policy := b.Obj()
			Expect(api.Patch(ctx, policy, client.Merge)).To(rejectFields(fields...), "an edit is rejected too")
		},
		Entry("an expression that does not compile", func(b *testpolicy.Builder) {
			b.Match(v1alpha1.Match{When: "request.nonesuch"})
		}, "spec.matches[0].when"),
		Entry("an expression of the wrong type", func(b *testpolicy.Builder) {
			b.Key(testpolicy.ExpressionPart("1 + 1"))
		}, "spec.key[1].expression.cel"),
		Entry("a path that no request has", func(b *testpolicy.Builder) {
			b.Match(v1alpha1.Match{Hosts: []string{"x"}}).Match(v1alpha1.Match{Paths: []string{"/a", "/a//b"}})
		}, "spec.matches[1].paths[1]"),
		Entry("several problems at once", func(b *testpolicy.Builder) {
			b.Match(v1alpha1.Match{When: "1"}).Match(v1alpha1.Match{Paths: []string{"/a//b"}})
		}, "spec.matches[0].when", "spec.matches[1].paths[0]"),
	)

	It("warns of probable mistakes", func(ctx SpecContext) {
		everything := v1alpha1.Match{Paths: []string{"/*"}}
		Expect(api.Create(ctx, good(namespace, "first").Match(everything).Obj())).To(Succeed())
		Expect(received.take()).To(ConsistOf(HavePrefix("spec.matches[0] is a catch-all match")))

		second := good(namespace, "second").Match(everything).Limit("daily", v1alpha1.AlgorithmSlidingLog, 90000, "24h").
			Override(
				v1alpha1.Override{Name: "a", Keys: []string{"x", "y"}, Action: v1alpha1.OverrideActionAllow},
				v1alpha1.Override{Name: "b", Keys: []string{"x"}, Action: v1alpha1.OverrideActionAllow},
			)
		Eventually(ctx, func(ctx context.Context) []string { // until the cache holds the first
			Expect(api.Create(ctx, second.Obj(), client.DryRunAll)).To(Succeed())
			return received.take()
		}).Should(ConsistOf(
			HavePrefix("spec.overrides[1] (b) is unused"),
			HavePrefix("spec.limits[1] (daily) is ineffective"),
			HavePrefix("spec.matches[0] is a catch-all match"),
			HavePrefix("spec.matches[0]: same match as "+namespace+"/first"),
		))

		By("deleting the first")
		Expect(api.Delete(ctx, good(namespace, "first").Obj())).To(Succeed())
		Eventually(ctx, func(ctx context.Context) []string {
			Expect(api.Create(ctx, second.Obj(), client.DryRunAll)).To(Succeed())
			return received.take()
		}).ShouldNot(ContainElement(HavePrefix("spec.matches[0]: same match")))
	})

	It("warns of an edit that resets counters, and of no other", func(ctx SpecContext) {
		policy := good(namespace, "p").Obj()
		Expect(api.Create(ctx, policy)).To(Succeed())
		edit := func(change func(*v1alpha1.RateLimitPolicySpec)) []string {
			GinkgoHelper()
			before := policy.DeepCopy()
			change(&policy.Spec)
			Expect(api.Patch(ctx, policy, client.MergeFrom(before))).To(Succeed())
			return received.take()
		}
		Expect(edit(func(s *v1alpha1.RateLimitPolicySpec) { s.Limits[0].Threshold = 9 })).To(BeEmpty())
		Expect(edit(func(s *v1alpha1.RateLimitPolicySpec) { s.Limits[0].Window = "2m" })).To(ConsistOf(
			HavePrefix("spec.limits[0].window: the change resets the counters of limit burst")))
		Expect(edit(func(s *v1alpha1.RateLimitPolicySpec) { s.Key = nil })).To(ConsistOf(HavePrefix("spec.key: ")))
	})

	It("blocks no request while it is down, nor the deletion of an invalid policy", func(ctx SpecContext) {
		policy := invalid(namespace)
		policy.Finalizers = []string{"test.weir.dev/wait"}
		stop()
		Expect(api.Create(ctx, policy)).To(Succeed(), "a webhook that is down rejects nothing")
		before := policy.DeepCopy()
		policy.Labels = map[string]string{"a": "b"}
		Expect(api.Patch(ctx, policy, client.MergeFrom(before))).To(Succeed())
		Expect(api.Delete(ctx, policy)).To(Succeed())
		before = policy.DeepCopy()
		policy.Finalizers = nil
		Expect(api.Patch(ctx, policy, client.MergeFrom(before))).To(Succeed())
		Eventually(ctx, func(ctx context.Context) error {
			return api.Get(ctx, client.ObjectKeyFromObject(policy), policy)
		}).Should(MatchError(apierrors.IsNotFound, "gone"))
	})

	// createInvalid stores an invalid policy in a Namespace that is then served.
	createInvalid := func(ctx SpecContext) *v1alpha1.RateLimitPolicy {
		GinkgoHelper()
		other := newNamespace(ctx, nil)
		policy := invalid(other)
		policy.Finalizers = []string{"test.weir.dev/wait"}
		Expect(api.Create(ctx, policy)).To(Succeed())
		serve(ctx, other, compile.TenancyCluster)
		awaitWebhook(ctx, other)
		return policy
	}

	It("accepts labels and finalizers on a policy that became invalid", func(ctx SpecContext) {
		policy := createInvalid(ctx)
		before := policy.DeepCopy()
		policy.Labels = map[string]string{"a": "b"}
		policy.Finalizers = append(policy.Finalizers, "test.weir.dev/another")
		Expect(api.Patch(ctx, policy, client.MergeFrom(before))).To(Succeed())
	})

	It("judges the time of Shadow whenever it changes", func(ctx SpecContext) {
		const field = "metadata.annotations[ratelimit.weir.dev/shadow-until]"
		annotate := func(policy *v1alpha1.RateLimitPolicy, value string) error {
			before := policy.DeepCopy()
			metav1.SetMetaDataAnnotation(&policy.ObjectMeta, v1alpha1.ShadowUntilAnnotation, value)
			return api.Patch(ctx, policy, client.MergeFrom(before))
		}
		in := func(length time.Duration) string { return time.Now().Add(length).Format(time.RFC3339) }
		policy := good(namespace, "shadowed").Obj()
		metav1.SetMetaDataAnnotation(&policy.ObjectMeta, v1alpha1.ShadowUntilAnnotation, in(48*time.Hour))
		Expect(api.Create(ctx, policy.DeepCopy())).To(rejectFields(field))
		policy.Annotations = nil
		Expect(api.Create(ctx, policy)).To(Succeed())
		Expect(annotate(policy.DeepCopy(), in(25*time.Hour))).To(rejectFields(field))
		Expect(annotate(policy.DeepCopy(), "1h")).To(rejectFields(field))
		Expect(annotate(policy, in(-time.Hour))).To(Succeed())
		Expect(annotate(policy, in(24*time.Hour))).To(Succeed())

		By("a policy that became invalid")
		Expect(annotate(createInvalid(ctx), in(time.Hour))).To(Succeed())
	})

	It("rejects an edit of a policy that became invalid", func(ctx SpecContext) {
		policy := createInvalid(ctx)
		before := policy.DeepCopy()
		policy.Spec.Limits[0].Threshold = 6
		Expect(api.Patch(ctx, policy, client.MergeFrom(before))).To(rejectFields("spec.matches[0].paths[0]"))
	})

	It("accepts any edit of a policy that is being deleted", func(ctx SpecContext) {
		policy := createInvalid(ctx)
		Expect(api.Delete(ctx, policy)).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
		Expect(policy.DeletionTimestamp).NotTo(BeNil())
		before := policy.DeepCopy()
		policy.Spec.Limits[0].Threshold = 7
		policy.Finalizers = nil
		Expect(api.Patch(ctx, policy, client.MergeFrom(before))).To(Succeed())
	})
})

var _ = Describe("The webhook with tenancy", func() {
	It("rejects hosts that the Namespace is not granted, and applies a new grant at once", func(ctx SpecContext) {
		namespace := newNamespace(ctx, map[string]string{compile.HostsAnnotation: "*.shop.example"})
		serve(ctx, namespace, compile.TenancyNamespace)
		awaitWebhook(ctx, namespace)
		match := func(name, host string) *v1alpha1.RateLimitPolicy {
			return good(namespace, name).Match(v1alpha1.Match{Hosts: []string{host}}).Obj()
		}
		Expect(api.Create(ctx, match("granted", "a.shop.example"))).To(Succeed())
		err := api.Create(ctx, match("bank", "bank.example"))
		Expect(err).To(rejectFields("spec.matches[0].hosts[0]"))
		Expect(err).To(MatchError(ContainSubstring("is not granted")))

		annotated := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		Expect(api.Get(ctx, client.ObjectKeyFromObject(annotated), annotated)).To(Succeed())
		annotated.Annotations[compile.HostsAnnotation] += ",bank.example"
		Expect(api.Update(ctx, annotated)).To(Succeed())
		Expect(api.Create(ctx, match("bank", "bank.example"))).To(Succeed())
	})

	It("accepts with a warning when it fails to read the grant", func(ctx SpecContext) {
		blind := interceptor.NewClient(nil, interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return apierrors.NewTooManyRequestsError("later")
			},
		})
		v := &webhook.Validator{Matches: &warning.MatchIndex{}, Namespaces: blind, Tenancy: compile.TenancyNamespace}
		policy := good("default", "p").Match(v1alpha1.Match{Hosts: []string{"x"}})
		warnings, err := v.ValidateCreate(ctx, policy.Obj())
		Expect(err).NotTo(HaveOccurred())
		Expect(warnings).To(ConsistOf(ContainSubstring("failed to read the grant")))
		_, err = v.ValidateCreate(ctx, policy.Match(v1alpha1.Match{Paths: []string{"/a//b"}}).Obj())
		Expect(err).To(rejectFields("spec.matches[1].paths[0]"))
	})
})

var _ = Describe("The validator", func() {
	It("accepts any update of a policy that is being deleted", func(ctx SpecContext) {
		policy := invalid("default")
		policy.DeletionTimestamp = new(metav1.Now())
		warnings, err := (&webhook.Validator{Tenancy: compile.TenancyCluster}).ValidateUpdate(ctx, good("default", "p").Obj(), policy)
		Expect(err).NotTo(HaveOccurred())
		Expect(warnings).To(BeEmpty())
	})
})

var _ = Describe("A webhook with an expired certificate", func() {
	It("does not block creation and deletion", func(ctx SpecContext) {
		namespace := newNamespace(ctx, nil)
		var calls atomic.Int64
		serveExpired(ctx, namespace, func() { calls.Add(1) })
		Eventually(ctx, func(ctx context.Context) int64 {
			Expect(api.Create(ctx, good(namespace, "p").Obj(), client.DryRunAll)).To(Succeed())
			return calls.Load()
		}).Should(BeNumerically(">", 0), "the API server has called it")
		policy := good(namespace, "p").Obj()
		Expect(api.Create(ctx, policy)).To(Succeed())
		Expect(api.Delete(ctx, policy)).To(Succeed())
	})
})
