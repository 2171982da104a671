// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// rule is one rule of the schema: a spec that is barely valid, one that is barely
// invalid, and the error of the API server for the latter.
type rule struct {
	good, bad string
	field     string
	message   string
}

// rules are all rules of the schema, by what they reject.
var rules = union(ofOneLimit(), limitRules, reservationRules, sliceRules, requestRules, overrideRules)

// union returns the rules of all, which have different names.
func union(all ...map[string]rule) map[string]rule {
	rules := map[string]rule{}
	for _, some := range all {
		for name, r := range some {
			if _, twice := rules[name]; twice {
				panic("two rules reject " + name)
			}
			rules[name] = r
		}
	}
	return rules
}

func ruleEntries() []TableEntry {
	var entries []TableEntry
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		entries = append(entries, Entry(name, rules[name]))
	}
	return entries
}

var _ = Describe("RateLimitPolicy", func() {
	create := func(ctx SpecContext, spec string) error {
		return api.Create(ctx, policyFrom(spec), client.DryRunAll)
	}

	DescribeTable("rejects", func(ctx SpecContext, r rule) {
		Expect(create(ctx, r.good)).To(Succeed())

		err := create(ctx, r.bad)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "want a rejection by the schema, got %v", err)
		Expect(causes(err)).To(ConsistOf(And(
			HaveField("Field", r.field),
			HaveField("Message", ContainSubstring(r.message)),
		)), "one complaint, about the right field")
	}, ruleEntries())

	DescribeTable("rejects a duration that is not GEP-2257", func(ctx SpecContext, duration string) {
		err := create(ctx, limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: "`+duration+`"}`))
		Expect(causes(err)).To(ContainElement(HaveField("Field", "spec.limits[0].window")))
	},
		Entry("a bare number", "60"),
		Entry("a fraction", "1.5s"),
		Entry("days", "1d"),
		Entry("microseconds", "1us"),
		Entry("a sign", "-1s"),
		Entry("a space", "1 s"),
		Entry("nothing", ""),
		Entry("five parts", "1h1m1s1ms1ms"),
		Entry("more than 24 characters", "00001h00001m00001s00001ms"),
	)

	DescribeTable("writes days, weeks and fractions in whole numbers", func(ctx SpecContext, duration, want string) {
		err := create(ctx, limits(`{name: a, algorithm: FixedWindow, threshold: 1, window: "`+duration+`"}`))
		Expect(causes(err)).To(ConsistOf(
			HaveField("Message", ContainSubstring("spec.limits[0].window in body should match")),
			And(HaveField("Field", "spec.limits[0].window"), HaveField("Message", HaveSuffix(want))),
		))
	},
		Entry("days", "7d", ": 7d: write 168h"),
		Entry("a fraction of an hour", "1.5h", ": 1.5h: write 90m"),
		Entry("a fraction of a second", "0.25s", ": 0.25s: write 250ms"),
		Entry("weeks", "2w", ": 2w: write 336h"),
	)

	It("names the limit of an override that the policy does not have", func(ctx SpecContext) {
		err := create(ctx, `{key: [{type: Principal, principal: {}}], limits: [{name: burst, algorithm: FixedWindow, threshold: 1, window: 1m}], overrides: [
			{name: staff, keys: [a], action: Allow},
			{name: gold, keys: [b], limits: [{name: burst, threshold: 2}, {name: brust, threshold: 2}]}]}`)
		Expect(causes(err)).To(ConsistOf(And(
			HaveField("Field", "spec.overrides"),
			HaveField("Message", HaveSuffix(", but overrides[1].limits[1] names brust")),
		)))
	})

	It("accepts a policy with every field at its upper bound", func(ctx SpecContext) {
		// The CEL rules must stay within the cost budget of the API server for every
		// policy that is valid by the schema.
		long := strings.Repeat("x", 60)
		limitOverrides := repeat(16, `{name: `+long+`%d, threshold: 100000, window: 1000s, blockDuration: 720h}`)
		spec := `{key: [{type: Principal, principal: {}}], limits: [` +
			repeat(16, `{name: `+long+`%d, algorithm: SlidingWindow, threshold: 100000, window: 1000s, bucket: 1s}`) +
			`], overrides: [` + repeat(64, `{name: `+long+`%d, when: a, limits: [`+limitOverrides+`]}`) + `]}`
		Expect(create(ctx, spec)).To(Succeed())
	})

	It("has an invalid example for every rule of the schema", func() {
		var provoked []string
		for _, r := range rules {
			provoked = append(provoked, r.message)
		}
		messages := slices.DeleteFunc(ruleMessages(policySchema(GinkgoTB())), func(message string) bool {
			return strings.HasPrefix(message, "durations have no days, weeks and fractions") // provoked above, beside the error of the pattern
		})
		Expect(provoked).To(ContainElements(messages))
	})

	It("defaults the enums of the spec, the status, and nothing else", func(ctx SpecContext) {
		policy := policyFrom(`{
			limits: [
				{name: sw, algorithm: SlidingWindow, threshold: 5, window: 1m},
				{name: s, algorithm: Suppressed, threshold: 5, window: 1m},
				{name: tb, algorithm: TokenBucket, threshold: 5, window: 1m}],
			key: [{type: RemoteAddress, remoteAddress: {}}],
			matches: [{hosts: [shop.example]}],
			overrides: [{name: o, keys: [a], limits: [{name: tb}]}],
			denial: {}}`)
		policy.SetName("defaults")
		want := policy.DeepCopy()
		Expect(api.Create(ctx, policy)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, policy)).To(Succeed()) })
		Expect(api.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())

		for field, value := range map[string]string{
			"mode":         string(v1alpha1.ModeEnforce),
			"onMissingKey": string(v1alpha1.OnMissingKeyShare),
			"counting":     string(v1alpha1.CountingAdmitted),
			"denyWhen":     string(v1alpha1.DenyWhenThresholdExceeded),
			"failureMode":  string(v1alpha1.FailureModeOpen),
		} {
			Expect(unstructured.SetNestedField(want.Object, value, "spec", field)).To(Succeed())
		}
		Expect(policy.Object["spec"]).To(Equal(want.Object["spec"]))
		Expect(policy.Object["status"]).To(Equal(map[string]any{"observedGeneration": int64(-1)}))
	})

	It("is unchanged by a round trip through the Go types", func(ctx SpecContext) {
		policy := policyFrom(limits(aLimit))
		policy.SetName("round-trip")
		Expect(api.Create(ctx, policy)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, policy)).To(Succeed()) })

		typed := &v1alpha1.RateLimitPolicy{}
		Expect(api.Get(ctx, client.ObjectKeyFromObject(policy), typed)).To(Succeed())
		Expect(typed.Status.ObservedGeneration).To(BeEquivalentTo(-1))
		Expect(api.Update(ctx, typed)).To(Succeed())
		Expect(typed.Generation).To(BeEquivalentTo(1), "an update without a change is none")
	})
})

var _ = Describe("The samples", func() {
	It("are accepted", func(ctx SpecContext) {
		files, err := filepath.Glob("../../config/samples/*.yaml")
		Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			data, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			for i, document := range strings.Split("\n"+string(data), "\n---") {
				object := &unstructured.Unstructured{}
				Expect(yaml.UnmarshalStrict([]byte(document), &object.Object)).To(Succeed(), file)
				if object.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
					continue
				}
				// The namespaces of the samples do not exist here.
				object.SetNamespace(metav1.NamespaceDefault)
				Expect(api.Create(ctx, object, client.DryRunAll)).To(Succeed(), "%s, document %d", file, i)
			}
		}
	})
})

// aLimit is a limit with arbitrary numbers.
const aLimit = `{name: a, algorithm: FixedWindow, threshold: 5, window: 1m}`

// limits returns a spec with only these limits.
func limits(entries ...string) string {
	return `{limits: [` + strings.Join(entries, ", ") + `]}`
}

// reservations returns a spec with these reservations, one more field and these limits.
func reservations(r, more string, entries ...string) string {
	return `{reservations: ` + r + `, ` + more + `, ` + limits(entries...)[1:]
}

// targetRefs returns a spec with these references.
func targetRefs(entries ...string) string {
	return `{targetRefs: [` + strings.Join(entries, ", ") + `], ` + limits(aLimit)[1:]
}

// matches returns a spec with these matches.
func matches(entries ...string) string {
	return `{matches: [` + strings.Join(entries, ", ") + `], ` + limits(aLimit)[1:]
}

// key returns a spec with a key of these parts.
func key(parts ...string) string {
	return `{key: [` + strings.Join(parts, ", ") + `], ` + limits(aLimit)[1:]
}

// overrides returns a spec with these overrides and the limits that they may change.
func overrides(entries ...string) string {
	return `{overrides: [` + strings.Join(entries, ", ") + `], ` + limits(
		`{name: log, algorithm: SlidingLog, threshold: 5, window: 1m}`,
		`{name: gcra, algorithm: GCRA, threshold: 5, window: 1m}`,
		`{name: suppressed, algorithm: Suppressed, threshold: 5, window: 1m}`,
		`{name: bucketed, algorithm: SlidingWindow, threshold: 5, window: 1m, bucket: 1s}`,
		`{name: fixed, algorithm: FixedWindow, threshold: 5, window: 1m}`,
	)[1:]
}

// repeat returns n entries, each with its number in place of %d.
func repeat(n int, entry string) string {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = strings.ReplaceAll(entry, "%d", strconv.Itoa(i))
	}
	return strings.Join(entries, ", ")
}

// policyFrom returns a policy with a spec in YAML.
func policyFrom(spec string) *unstructured.Unstructured {
	GinkgoHelper()
	return objectFrom("RateLimitPolicy", spec)
}

// objectFrom returns an object with a spec in YAML, unstructured, since Go types would
// drop empty fields.
func objectFrom(kind, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	data, err := yaml.YAMLToJSON([]byte(`{
		apiVersion: ratelimit.weir.dev/v1alpha1, kind: ` + kind + `,
		metadata: {namespace: default, name: object}, spec: ` + spec + `}`))
	Expect(err).NotTo(HaveOccurred())
	object := &unstructured.Unstructured{}
	Expect(object.UnmarshalJSON(data)).To(Succeed())
	return object
}

// causes returns the causes of a rejection, without the note that some rules were not
// checked because of them.
func causes(err error) []metav1.StatusCause {
	GinkgoHelper()
	var status apierrors.APIStatus
	Expect(errors.As(err, &status)).To(BeTrue(), "want a rejection, got %v", err)
	Expect(status.Status().Details).NotTo(BeNil())
	return slices.DeleteFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return strings.Contains(cause.Message, "some validation rules were not checked")
	})
}
