// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"bytes"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// policyClient returns a client with the policies.
func policyClient(t *testing.T, policies ...runtime.Object) *fake.FakeDynamicClient {
	t.Helper()
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	return fake.NewSimpleDynamicClient(scheme, policies...)
}

// Overlaps concern several policies, so they are in the report and in no status.
func TestCheckReportsWarningsAndOverlaps(t *testing.T) {
	same := v1alpha1.Match{Hosts: []string{"shop.example"}, Paths: []string{"/login"}}
	policy := func(name string, matches ...v1alpha1.Match) *v1alpha1.RateLimitPolicy {
		b := testpolicy.Make(name).Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1m")
		for _, m := range matches {
			b.Match(m)
		}
		return b.Obj()
	}
	warned := policy("shop/warned")
	warned.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionWarnings, Status: metav1.ConditionTrue}}
	off := policy("shop/off", same)
	off.Spec.Mode = v1alpha1.ModeDisabled
	for name, tc := range map[string]struct {
		policies []runtime.Object
		want     []string
		detail   string
	}{
		"none":               {nil, []string{"warnings ok", "overlaps ok"}, "no two policies have the same match"},
		"one has warnings":   {[]runtime.Object{warned, policy("shop/a")}, []string{"warnings warning", "overlaps ok"}, "1 policies are probably a mistake: shop/warned\n"},
		"two have one match": {[]runtime.Object{policy("shop/a", same), policy("bank/b", same)}, []string{"warnings ok", "overlaps warning"}, "shop/a (spec.matches[0]: same match as bank/b; a request must pass every policy)"},
		"one is Disabled":    {[]runtime.Object{policy("shop/a", same), off}, []string{"overlaps ok"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, r := NewWithT(t), &report{}
			inspectWarnings(t.Context(), policyClient(t, tc.policies...), r)
			g.Expect(r.lines()).To(ContainElements(tc.want))
			g.Expect(r.number(outcomeFailed)).To(BeZero(), "a warning does not fail the command")
			out := &bytes.Buffer{}
			g.Expect(r.write(out)).To(Succeed())
			g.Expect(out.String()).To(ContainSubstring(tc.detail))
		})
	}
}

func TestCheckOfPoliciesThatMayNotBeListed(t *testing.T) {
	g, r, kube := NewWithT(t), &report{}, policyClient(t)
	kube.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "ratelimitpolicies"}, "", errors.New("no"))
	})
	inspectWarnings(t.Context(), kube, r)
	g.Expect(r.lines()).To(Equal([]string{"warnings not checked", "overlaps not checked"}))
}
