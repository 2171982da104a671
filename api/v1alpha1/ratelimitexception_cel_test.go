// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// exceptionWith returns the spec of an exception with these fields in addition.
func exceptionWith(fields string) string {
	return `{policy: api, until: "2026-12-01T06:00:00Z", ` + fields + `}`
}

var _ = Describe("RateLimitException", func() {
	create := func(ctx SpecContext, spec string) error {
		return api.Create(ctx, objectFrom("RateLimitException", spec), client.DryRunAll)
	}
	const limits = `limits: [{name: burst, threshold: 2000}]`

	DescribeTable("rejects", func(ctx SpecContext, r rule) {
		Expect(create(ctx, r.good)).To(Succeed())
		err := create(ctx, r.bad)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "want a rejection by the schema, got %v", err)
		Expect(causes(err)).To(ContainElement(And(
			HaveField("Field", r.field), HaveField("Message", ContainSubstring(r.message)),
		)))
	},
		Entry("no policy", rule{
			exceptionWith(limits), `{until: "2026-12-01T06:00:00Z", ` + limits + `}`, "spec.policy", "Required value",
		}),
		Entry("a policy that is no name", rule{
			exceptionWith(limits), `{policy: shop/api, until: "2026-12-01T06:00:00Z", ` + limits + `}`,
			"spec.policy", "policy must be the name of a RateLimitPolicy",
		}),
		Entry("no end", rule{exceptionWith(limits), `{policy: api, ` + limits + `}`, "spec.until", "Required value"}),
		Entry("an end that is no time", rule{
			`{policy: api, until: "2026-12-01T06:00:00+01:00", ` + limits + `}`, `{policy: api, until: tomorrow, ` + limits + `}`,
			"spec.until", "must be of type date-time",
		}),
		Entry("a key of 9 parts", rule{
			exceptionWith(`key: [` + repeat(8, `k%d`) + `], ` + limits), exceptionWith(`key: [` + repeat(9, `k%d`) + `], ` + limits),
			"spec.key", "must have at most 8 items",
		}),
		Entry("an empty part", rule{
			exceptionWith(`key: [a], ` + limits), exceptionWith(`key: [""], ` + limits), "spec.key[0]", "should be at least 1 chars long",
		}),
		Entry("a part of 256 characters", rule{
			exceptionWith(`key: [` + strings.Repeat("ä", 255) + `], ` + limits), exceptionWith(`key: [` + strings.Repeat("ä", 256) + `], ` + limits),
			"spec.key[0]", "may not be more than 255",
		}),
		Entry("a control character", rule{
			exceptionWith(`key: ["a b"], ` + limits), exceptionWith(`key: ["a\tb"], ` + limits), "spec.key", "key must not contain control characters",
		}),
		Entry("another action", rule{
			exceptionWith(`action: Limit, ` + limits), exceptionWith(`action: Deny, ` + limits), "spec.action", "Unsupported value",
		}),
		Entry("no limits", rule{exceptionWith(`action: Allow`), exceptionWith(`reason: x`), "spec.limits", "limits must be set when action is Limit"}),
		Entry("no limits with Limit", rule{
			exceptionWith(`action: Limit, ` + limits), exceptionWith(`action: Limit`), "spec.limits", "limits must be set when action is Limit",
		}),
		Entry("limits with Allow", rule{
			exceptionWith(`action: Allow`), exceptionWith(`action: Allow, ` + limits), "spec.limits", "limits must not be set when action is Allow",
		}),
		Entry("an empty list of limits", rule{exceptionWith(limits), exceptionWith(`limits: []`), "spec.limits", "should have at least 1 items"}),
		Entry("17 limits", rule{
			exceptionWith(`limits: [` + repeat(16, `{name: l%d, burst: 1}`) + `]`), exceptionWith(`limits: [` + repeat(17, `{name: l%d, burst: 1}`) + `]`),
			"spec.limits", "must have at most 16 items",
		}),
		Entry("a limit twice", rule{
			exceptionWith(`limits: [{name: a, burst: 1}, {name: b, burst: 1}]`), exceptionWith(`limits: [{name: a, burst: 1}, {name: a, burst: 2}]`),
			"spec.limits[1]", "Duplicate value",
		}),
		Entry("a limit without a name", rule{
			exceptionWith(limits), exceptionWith(`limits: [{threshold: 1}]`), "spec.limits[0].name", "Required value",
		}),
		Entry("a limit without numbers", rule{
			exceptionWith(`limits: [{name: a, burst: 1}]`), exceptionWith(`limits: [{name: a}]`), "spec.limits[0]", "threshold or burst must be set",
		}),
		Entry("a threshold of 0", rule{
			exceptionWith(`limits: [{name: a, threshold: 1}]`), exceptionWith(`limits: [{name: a, threshold: 0}]`),
			"spec.limits[0].threshold", "should be greater than or equal to 1",
		}),
		Entry("a huge threshold", rule{
			exceptionWith(`limits: [{name: a, threshold: 1000000000000}]`), exceptionWith(`limits: [{name: a, threshold: 1000000000001}]`),
			"spec.limits[0].threshold", "should be less than or equal to 1000000000000",
		}),
		Entry("a burst of 0", rule{
			exceptionWith(`limits: [{name: a, burst: 1}]`), exceptionWith(`limits: [{name: a, burst: 0}]`),
			"spec.limits[0].burst", "should be greater than or equal to 1",
		}),
		Entry("a huge burst", rule{
			exceptionWith(`limits: [{name: a, burst: 2147483647}]`), exceptionWith(`limits: [{name: a, burst: 2147483648}]`),
			"spec.limits[0].burst", "should be less than or equal to 2147483647",
		}),
		Entry("a long reason", rule{
			exceptionWith(`reason: ` + strings.Repeat("ä", 1024) + `, ` + limits), exceptionWith(`reason: ` + strings.Repeat("ä", 1025) + `, ` + limits),
			"spec.reason", "may not be more than 1024",
		}),
	)

	DescribeTable("the bounds of a policy reject", func(ctx SpecContext, r rule) {
		createPolicy := func(bounds string) error {
			spec := `{limits: [{name: burst, algorithm: FixedWindow, threshold: 5, window: 1m}], exceptions: ` + bounds + `}`
			return api.Create(ctx, objectFrom("RateLimitPolicy", spec), client.DryRunAll)
		}
		Expect(createPolicy(r.good)).To(Succeed())
		Expect(causes(createPolicy(r.bad))).To(ContainElement(And(
			HaveField("Field", r.field), HaveField("Message", ContainSubstring(r.message)),
		)))
	},
		Entry("a factor of 0", rule{`{maxFactor: 1}`, `{maxFactor: 0}`, "spec.exceptions.maxFactor", "should be greater than or equal to 1"}),
		Entry("a factor of 1001", rule{`{maxFactor: 1000}`, `{maxFactor: 1001}`, "spec.exceptions.maxFactor", "should be less than or equal to 1000"}),
		Entry("another action", rule{`{actions: [Limit, Allow]}`, `{actions: [Deny]}`, "spec.exceptions.actions[0]", "Unsupported value"}),
		Entry("no action", rule{`{actions: [None]}`, `{actions: []}`, "spec.exceptions.actions", "should have at least 1 items"}),
		Entry("an action twice", rule{`{actions: [Limit]}`, `{actions: [Limit, Limit]}`, "spec.exceptions.actions[1]", "Duplicate value"}),
	)

	It("keep the empty list of actions that an older schema has stored", func(ctx SpecContext) {
		name := client.ObjectKey{Name: "ratelimitpolicies.ratelimit.weir.dev"}
		setMinItems := func(n *int64) {
			definition := &apiextensionsv1.CustomResourceDefinition{}
			Expect(api.Get(ctx, name, definition)).To(Succeed())
			edited := definition.DeepCopy()
			bounds := edited.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["exceptions"]
			actions := bounds.Properties["actions"]
			actions.MinItems = n
			bounds.Properties["actions"] = actions
			Expect(api.Patch(ctx, edited, client.MergeFrom(definition))).To(Succeed())
		}
		policy := objectFrom("RateLimitPolicy", `{limits: [{name: burst, algorithm: FixedWindow, threshold: 5, window: 1m}], exceptions: {actions: []}}`)
		policy.SetName("stored")
		setMinItems(nil)
		Eventually(func() error { return api.Create(ctx, policy.DeepCopy()) }, "30s").WithContext(ctx).Should(Succeed())
		setMinItems(new(int64(1)))
		probe := policy.DeepCopy()
		probe.SetName("probe")
		Eventually(func() error { return api.Create(ctx, probe.DeepCopy(), client.DryRunAll) }, "30s").WithContext(ctx).ShouldNot(Succeed())
		edit := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"counting": "Attempts"}}`))
		Expect(api.Patch(ctx, policy, edit)).To(Succeed())
		actions, found, err := unstructured.NestedSlice(policy.Object, "spec", "exceptions", "actions")
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(BeTrue())
		Expect(actions).To(BeEmpty())
	})
})
