// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

var _ = Describe("RateLimitKeyGroup", func() {
	create := func(ctx SpecContext, spec string) error {
		return api.Create(ctx, objectFrom("RateLimitKeyGroup", spec), client.DryRunAll)
	}

	DescribeTable("rejects", func(ctx SpecContext, r rule) {
		Expect(create(ctx, r.good)).To(Succeed())
		err := create(ctx, r.bad)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "want a rejection by the schema, got %v", err)
		Expect(causes(err)).To(ContainElement(And(
			HaveField("Field", r.field), HaveField("Message", ContainSubstring(r.message)),
		)))
	},
		Entry("no group", rule{`{group: gold, keys: [a]}`, `{keys: [a]}`, "spec.group", "Required value"}),
		Entry("an empty group", rule{`{group: g, keys: [a]}`, `{group: "", keys: [a]}`, "spec.group", "should be at least 1 chars long"}),
		Entry("a long group", rule{
			`{group: ` + strings.Repeat("g", 63) + `, keys: [a]}`, `{group: ` + strings.Repeat("g", 64) + `, keys: [a]}`,
			"spec.group", "may not be more than 63",
		}),
		Entry("a group that is no DNS label", rule{
			`{group: gold-1, keys: [a]}`, `{group: gold.1, keys: [a]}`, "spec.group",
			"group must be a DNS label: lower-case letters, digits and inner dashes",
		}),
		Entry("no keys", rule{`{group: gold, keys: [a]}`, `{group: gold, keys: []}`, "spec.keys", "should have at least 1 items"}),
		Entry("missing keys", rule{`{group: gold, keys: [a]}`, `{group: gold}`, "spec.keys", "Required value"}),
		Entry("more than 1000 keys", rule{
			`{group: gold, keys: [` + repeat(1000, `k%d`) + `]}`, `{group: gold, keys: [` + repeat(1001, `k%d`) + `]}`,
			"spec.keys", "must have at most 1000 items",
		}),
		Entry("an empty key", rule{`{group: gold, keys: [a]}`, `{group: gold, keys: [a, ""]}`, "spec.keys[1]", "should be at least 1 chars long"}),
		Entry("a key of 256 characters", rule{
			`{group: gold, keys: [` + strings.Repeat("ä", 255) + `]}`, `{group: gold, keys: [` + strings.Repeat("a", 256) + `]}`,
			"spec.keys[0]", "may not be more than 255",
		}),
	)

	It("accepts 1000 keys of 255 characters, and duplicates", func(ctx SpecContext) {
		Expect(create(ctx, `{group: gold, keys: [`+repeat(1000, strings.Repeat("x", 255))+`]}`)).To(Succeed())
	})

	It("does not let its group change", func(ctx SpecContext) {
		group := &v1alpha1.RateLimitKeyGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "immutable"},
			Spec:       v1alpha1.RateLimitKeyGroupSpec{Group: "gold", Keys: []string{"b", "a", "b"}},
		}
		Expect(api.Create(ctx, group)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, group)).To(Succeed()) })
		Expect(group.Spec.Keys).To(Equal([]string{"b", "a", "b"}), "the order and the duplicates stay as written")
		Expect(group.Status.ObservedGeneration).To(BeEquivalentTo(-1))

		changed := group.DeepCopy()
		changed.Spec.Group = "silver"
		Expect(causes(api.Update(ctx, changed))).To(ConsistOf(And(HaveField("Field", "spec.group"),
			HaveField("Message", ContainSubstring("group is immutable: create another RateLimitKeyGroup and delete this one")))))

		group.Spec.Keys = []string{"c"}
		Expect(api.Update(ctx, group)).To(Succeed())
	})
})
