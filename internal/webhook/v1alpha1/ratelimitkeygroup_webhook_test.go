// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

var _ = Describe("The webhook of key groups", func() {
	var namespace string
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx, nil)
		serve(ctx, namespace, compile.TenancyCluster)
		awaitWebhook(ctx, namespace)
	})
	keyGroup := func(name, group string, keys ...string) *v1alpha1.RateLimitKeyGroup {
		return &v1alpha1.RateLimitKeyGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1alpha1.RateLimitKeyGroupSpec{Group: group, Keys: keys},
		}
	}
	warned := func(ctx context.Context, object client.Object) func() []string {
		return func() []string {
			object.SetResourceVersion("")
			Expect(api.Create(ctx, object, client.DryRunAll)).To(Succeed())
			return received.take()
		}
	}

	It("warns of unused groups and keys in two groups, and rejects what has no room", func(ctx SpecContext) {
		const unused = "spec.group: no override of a policy in the Namespace selects the group gold"
		Eventually(warned(ctx, keyGroup("gold-0", "gold", "acme"))).WithContext(ctx).Should(Equal([]string{unused}))
		tiers := good(namespace, "api").Override(
			v1alpha1.Override{Name: "best", Groups: []string{"gold"}, Action: v1alpha1.OverrideActionAllow},
			v1alpha1.Override{Name: "better", Groups: []string{"silver"}, Action: v1alpha1.OverrideActionAllow}).Obj()
		Eventually(warned(ctx, tiers)).WithContext(ctx).Should(Equal([]string{
			"spec.overrides[0].groups[0]: no RateLimitKeyGroup of the Namespace has keys of the group gold",
			"spec.overrides[1].groups[0]: no RateLimitKeyGroup of the Namespace has keys of the group silver",
		}))
		Expect(api.Create(ctx, tiers)).To(Succeed())
		received.take()
		gold := keyGroup("gold-0", "gold", "acme", "globex")
		Eventually(warned(ctx, gold)).WithContext(ctx).Should(BeEmpty())
		gold.ResourceVersion = ""
		Expect(api.Create(ctx, gold)).To(Succeed())
		Eventually(warned(ctx, keyGroup("silver-0", "silver", "acme"))).WithContext(ctx).Should(Equal([]string{
			`spec.keys: also in the group gold: "acme"; override best of policy api comes first and decides`,
		}))

		large := keyGroup("gold-1", "gold", strings.Repeat("x", 200))
		for i := range byte(26) {
			large.Spec.Keys = append(large.Spec.Keys, strings.Repeat(string('a'+rune(i)), 200))
		}
		err := api.Create(ctx, large, client.DryRunAll)
		Expect(err).To(rejectFields("spec.keys"))
		Expect(err).To(MatchError(And(ContainSubstring("The key groups of the Namespace use "), ContainSubstring(" of 40000 bytes of memory for keys"))))
		large.Spec.Keys = large.Spec.Keys[:2]
		Expect(warned(ctx, large)()).To(BeEmpty())
	})

	It("rejects keys of more than 255 bytes, which the schema counts as characters", func(ctx SpecContext) {
		Expect(api.Create(ctx, keyGroup("gold-0", "gold", "acme", strings.Repeat("\U0001F600", 64)), client.DryRunAll)).To(rejectFields("spec.keys[1]"))
		Expect(api.Create(ctx, keyGroup("gold-0", "gold", "acme", strings.Repeat("\U0001F600", 63)), client.DryRunAll)).To(Succeed())
		received.take()
	})

	It("lets metadata change, and counts its answers", func(ctx SpecContext) {
		before := reviewed("warned")
		gold := keyGroup("gold-0", "gold", "acme")
		Expect(api.Create(ctx, gold)).To(Succeed())
		Expect(reviewed("warned")).To(Equal(before + 1))
		received.take()
		gold.Labels = map[string]string{"team": "shop"}
		Expect(api.Update(ctx, gold)).To(Succeed())
		Expect(received.take()).To(BeEmpty())
	})
})

// createSampleGroups creates the sample key groups, and waits until the webhook knows them.
func createSampleGroups(ctx SpecContext, namespace string) {
	GinkgoHelper()
	samples, err := filepath.Glob("../../../config/samples/keygroups/*.yaml")
	Expect(err).NotTo(HaveOccurred())
	Expect(samples).NotTo(BeEmpty())
	for _, sample := range samples {
		group := &v1alpha1.RateLimitKeyGroup{}
		data, err := os.ReadFile(sample)
		Expect(err).NotTo(HaveOccurred())
		Expect(yaml.UnmarshalStrict(data, group)).To(Succeed())
		group.Namespace = namespace
		Expect(api.Create(ctx, group)).To(Succeed(), sample)
		selecting := good(namespace, "selecting").
			Override(v1alpha1.Override{Name: "o", Groups: []string{group.Spec.Group}, Action: v1alpha1.OverrideActionAllow}).Obj()
		Eventually(func(g Gomega) []string {
			received.take()
			g.Expect(api.Create(ctx, selecting.DeepCopy(), client.DryRunAll)).To(Succeed())
			return received.take()
		}).WithContext(ctx).Should(BeEmpty())
	}
	received.take()
}
