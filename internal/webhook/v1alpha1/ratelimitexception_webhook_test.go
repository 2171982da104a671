// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// as returns a client of another user with all rights.
func as(user string) client.Client {
	GinkgoHelper()
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	c, err := client.New(config, client.Options{Scheme: server.Env.Scheme})
	Expect(err).NotTo(HaveOccurred())
	return c
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
		jane, bob := as("jane"), as("bob")
		e := exception("launch", 2, time.Hour)
		e.Annotations = map[string]string{v1alpha1.RequestedByAnnotation: "jane"}
		Expect(bob.Create(ctx, e.DeepCopy())).To(MatchError(ContainSubstring(`names "jane", and you are "bob": set it to your name, or remove it`)))
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
})
