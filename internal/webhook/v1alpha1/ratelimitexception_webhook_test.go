// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// as returns a client of a user with the rights to write exceptions and the rights of the rules.
func as(ctx context.Context, user string, rules ...rbacv1.PolicyRule) client.Client {
	GinkgoHelper()
	rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"ratelimitexceptions"}, Verbs: []string{"*"}})
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}, Rules: rules}
	Expect(api.Create(ctx, role)).To(Succeed())
	DeferCleanup(api.Delete, role)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	Expect(api.Create(ctx, binding)).To(Succeed())
	DeferCleanup(api.Delete, binding)
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	c, err := client.New(config, client.Options{Scheme: server.Env.Scheme})
	Expect(err).NotTo(HaveOccurred())
	for _, rule := range rules {
		Eventually(ctx, func(ctx context.Context) bool {
			a := authorizationv1.ResourceAttributes{Group: rule.APIGroups[0], Resource: rule.Resources[0], Verb: rule.Verbs[0]}
			if len(rule.ResourceNames) > 0 {
				a.Name = rule.ResourceNames[0]
			}
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &a}}
			Expect(api.Create(ctx, review)).To(Succeed())
			return review.Status.Allowed
		}).Should(BeTrue())
	}
	return c
}

// impersonate is the right to impersonate the named objects of the resource, all without a name.
func impersonate(resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"impersonate"}, ResourceNames: names}
}

var _ = Describe("The webhook of exceptions", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx, nil)
		serve(ctx, namespace, compile.TenancyCluster)
		awaitWebhook(ctx, namespace)
	})
	exception := func(name string, threshold int64, length time.Duration) *v1alpha1.RateLimitException {
		return &v1alpha1.RateLimitException{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: v1alpha1.RateLimitExceptionSpec{
				Policy: "api", Until: metav1.NewTime(time.Now().Add(length)),
				Limits: []v1alpha1.ExceptionLimit{{Name: "burst", Threshold: &threshold}},
			},
		}
	}
	try := func(ctx SpecContext, e *v1alpha1.RateLimitException) (string, []string) {
		GinkgoHelper()
		err := api.Create(ctx, e.DeepCopy(), client.DryRunAll)
		if err == nil {
			return "", received.take()
		}
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), err.Error())
		return err.Error(), received.take()
	}

	It("judges an exception by its policy", func(ctx SpecContext) {
		problem, warnings := try(ctx, exception("launch", 1, time.Hour))
		Expect(problem).To(BeEmpty())
		Expect(warnings).To(Equal([]string{"spec.policy: the Namespace has no RateLimitPolicy api; the exception is judged once it has"}))

		policy := good(namespace, "api").Obj()
		largest := policy.Spec.Limits[0].Threshold
		Expect(api.Create(ctx, policy)).To(Succeed())
		received.take()
		problem, warnings = try(ctx, exception("launch", 10*largest, time.Hour))
		Expect(problem).To(BeEmpty(), "at once: it does not wait for a cache")
		Expect(warnings).To(BeEmpty())
		problem, _ = try(ctx, exception("launch", 10*largest+1, time.Hour))
		Expect(problem).To(ContainSubstring(fmt.Sprintf("spec.limits[0].threshold: Forbidden: %d is more than %d", 10*largest+1, 10*largest)))
		problem, _ = try(ctx, exception("launch", 10, 91*24*time.Hour))
		Expect(problem).To(ContainSubstring("must be at most 90 days ahead"))
		_, warnings = try(ctx, exception("launch", 1, -time.Hour))
		Expect(warnings).To(Equal([]string{"spec.until: has passed, so the exception has no effect"}))
	})

	It("warns of two exceptions for one key, and of a lack of room", func(ctx SpecContext) {
		Expect(api.Create(ctx, good(namespace, "api").Obj())).To(Succeed())
		Expect(api.Create(ctx, exception("first", 2, time.Hour))).To(Succeed())
		Eventually(func(g Gomega) {
			_, warnings := try(ctx, exception("second", 3, 2*time.Hour))
			g.Expect(warnings).To(ConsistOf(HavePrefix("spec.key: exception first is for the same key: until ")))
		}).Should(Succeed())
		for i := range 2 {
			Expect(api.Create(ctx, exception(fmt.Sprint("more-", i), 2, time.Hour))).To(Succeed())
		}
		Expect(api.Create(ctx, exception("ended", 2, -time.Hour))).To(Succeed(), "it needs no room")
		Eventually(func(g Gomega) {
			_, warnings := try(ctx, exception("second", 3, 2*time.Hour))
			g.Expect(warnings).To(ContainElement("spec: the exception will probably not be accepted (OverBudget): " +
				"The exceptions of the Namespace use 3 of 3 live exceptions, and this one needs 1 more"))
		}).Should(Succeed())
	})

	It("accepts only the name of the caller in the annotation requested-by", func(ctx SpecContext) {
		Expect(api.Create(ctx, good(namespace, "api").Obj())).To(Succeed())
		jane, bob := as(ctx, "jane"), as(ctx, "bob")
		e := exception("launch", 2, time.Hour)
		e.Annotations = map[string]string{v1alpha1.RequestedByAnnotation: "jane"}
		Expect(bob.Create(ctx, e.DeepCopy())).To(MatchError(ContainSubstring(`names "jane", and you, "bob", may not impersonate that user: set it to your name, or remove it`)))
		Expect(jane.Create(ctx, e)).To(Succeed())

		changed := e.DeepCopy()
		changed.Spec.Reason = "another"
		Expect(bob.Update(ctx, changed.DeepCopy(), client.DryRunAll)).To(MatchError(ContainSubstring("set it to your name")), "jane did not ask for it")
		changed.Annotations[v1alpha1.RequestedByAnnotation] = "bob"
		Expect(bob.Update(ctx, changed, client.DryRunAll)).To(Succeed())
		renamed := e.DeepCopy()
		renamed.Annotations[v1alpha1.RequestedByAnnotation] = "ann"
		Expect(bob.Update(ctx, renamed, client.DryRunAll)).To(MatchError(ContainSubstring("set it to your name")))
		delete(renamed.Annotations, v1alpha1.RequestedByAnnotation)
		Expect(bob.Update(ctx, renamed, client.DryRunAll)).To(Succeed())
		labeled := e.DeepCopy()
		labeled.Labels = map[string]string{"team": "shop"}
		Expect(bob.Update(ctx, labeled, client.DryRunAll)).To(Succeed())
	})

	It("accepts the name of a user whom the caller may impersonate", func(ctx SpecContext) {
		Expect(api.Create(ctx, good(namespace, "api").Obj())).To(Succeed())
		const account = "system:serviceaccount:shop:on-call"
		named := func(user string) *v1alpha1.RateLimitException {
			e := exception("launch", 2, time.Hour)
			e.Annotations = map[string]string{v1alpha1.RequestedByAnnotation: user}
			return e
		}
		restore := as(ctx, "restore", impersonate("users", "jane", account))
		Expect(restore.Create(ctx, named("jane"), client.DryRunAll)).To(Succeed())
		Expect(restore.Create(ctx, named("ann"), client.DryRunAll)).To(MatchError(ContainSubstring(`names "ann"`)))
		Expect(restore.Create(ctx, named(account), client.DryRunAll)).To(MatchError(ContainSubstring(`names "`+account)), "as the API server: not a right for users")
		accounts := as(ctx, "accounts", impersonate("serviceaccounts"))
		Expect(accounts.Create(ctx, named(account), client.DryRunAll)).To(Succeed())
		Expect(accounts.Create(ctx, named("jane"), client.DryRunAll)).To(MatchError(ContainSubstring(`names "jane"`)))

		stored := named("jane")
		Expect(restore.Create(ctx, stored)).To(Succeed())
		raised := stored.DeepCopy()
		raised.Spec.Limits[0].Threshold = new(int64(4))
		Expect(restore.Update(ctx, raised, client.DryRunAll)).To(Succeed(), "an edit in Git keeps the name")
	})

	DescribeTable("checks the name that an edit keeps, unless it only lowers the exception",
		func(ctx SpecContext, edit func(*v1alpha1.RateLimitException), passes bool) {
			Expect(api.Create(ctx, good(namespace, "api").Obj())).To(Succeed())
			e := exception("launch", 4, time.Hour)
			e.Annotations = map[string]string{v1alpha1.RequestedByAnnotation: "system:serviceaccount:shop:on-call"}
			Expect(api.Create(ctx, e)).To(Succeed())
			edit(e)
			err := as(ctx, "bob").Update(ctx, e, client.DryRunAll)
			if passes {
				Expect(err).NotTo(HaveOccurred())
			} else {
				Expect(err).To(MatchError(ContainSubstring("set it to your name, or remove it")))
			}
		},
		Entry("an earlier end", func(e *v1alpha1.RateLimitException) { e.Spec.Until = metav1.NewTime(e.Spec.Until.Add(-time.Minute)) }, true),
		Entry("an end in the past", func(e *v1alpha1.RateLimitException) { e.Spec.Until = metav1.NewTime(e.Spec.Until.Add(-2 * time.Hour)) }, true),
		Entry("a later end", func(e *v1alpha1.RateLimitException) { e.Spec.Until = metav1.NewTime(e.Spec.Until.Add(time.Minute)) }, false),
		Entry("a lower number", func(e *v1alpha1.RateLimitException) { e.Spec.Limits[0].Threshold = new(int64(3)) }, true),
		Entry("a higher number", func(e *v1alpha1.RateLimitException) { e.Spec.Limits[0].Threshold = new(int64(5)) }, false),
		Entry("a lower number and a later end", func(e *v1alpha1.RateLimitException) {
			e.Spec.Limits[0].Threshold, e.Spec.Until = new(int64(3)), metav1.NewTime(e.Spec.Until.Add(time.Minute))
		}, false),
		Entry("an exemption", func(e *v1alpha1.RateLimitException) {
			e.Spec.Action, e.Spec.Limits = v1alpha1.ExceptionActionAllow, nil
		}, false),
		Entry("another key", func(e *v1alpha1.RateLimitException) { e.Spec.Key = []string{"other"} }, false),
		Entry("another reason", func(e *v1alpha1.RateLimitException) { e.Spec.Reason = "another" }, false),
		Entry("a higher number without the name", func(e *v1alpha1.RateLimitException) {
			e.Annotations, e.Spec.Limits[0].Threshold = nil, new(int64(5))
		}, true),
	)
})
