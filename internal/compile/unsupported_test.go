// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile_test

import (
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// A field that narrows a match, or an algorithm that this release does not have: the object has no record, and no
// other problem hides the reason. A match outside the grant stays one, since it withdraws the plan.
func TestSpecsOfALaterReleaseDoNotCompile(t *testing.T) {
	g := NewWithT(t)
	policy := &v1alpha1.RateLimitPolicy{}
	g.Expect(json.Unmarshal([]byte(`{"metadata": {"namespace": "shop", "name": "p"}, "spec": {
		"matches": [{"hosts": ["shop.example"], "onlyMethods": ["POST"]}], "limits": [{"name": "a", "algorithm": "Leaky", "threshold": 1}]}}`), policy)).To(Succeed())
	_, problems := compile.Compile(policy, compile.Everything(), time.Time{})
	g.Expect(problems.ToAggregate()).To(MatchError("[spec.matches[0].onlyMethods: Unsupported value: unknown field of a later release, " +
		"spec.limits[0].algorithm: Unsupported value: unknown value \"Leaky\" of a later release]"))
	_, problems = compile.Compile(policy, compile.Grant{}, time.Time{})
	g.Expect(problems).To(ContainElement(HaveField("Type", field.ErrorTypeForbidden)))
	g.Expect(problems).To(HaveLen(3))
	g.Expect(json.Unmarshal([]byte(`{"spec": {"matches": [], "limits": [{"name": "a", "algorithm": "GCRA", "threshold": 1, "window": "1m"}], "denial": {"status": 418}}}`),
		policy)).To(Succeed())
	_, problems = compile.Compile(policy, compile.Everything(), time.Time{})
	g.Expect(problems).To(ConsistOf(And(HaveField("Field", "spec.denial.status"), HaveField("Type", field.ErrorTypeNotSupported))))

	group := &v1alpha1.RateLimitKeyGroup{}
	g.Expect(json.Unmarshal([]byte(`{"metadata": {"namespace": "shop", "name": "g"}, "spec": {"group": "g", "keys": ["a"], "until": "x"}}`), group)).To(Succeed())
	_, problems = compile.KeyGroup(group)
	g.Expect(problems).To(ConsistOf(And(HaveField("Field", "spec.until"), HaveField("Type", field.ErrorTypeNotSupported))))

	exception := &v1alpha1.RateLimitException{}
	g.Expect(json.Unmarshal([]byte(`{"metadata": {"namespace": "shop", "name": "e"}, "spec": {"policy": "p", "action": "Raise", "from": "x"}}`), exception)).To(Succeed())
	policy.Spec.Denial.Status = 0
	of, problems := compile.Compile(policy, compile.Everything(), time.Time{})
	g.Expect(problems).To(BeEmpty())
	_, problems = compile.Exception(exception, policy, of, time.Time{})
	g.Expect(problems).To(ConsistOf(HaveField("Field", "spec.from"), HaveField("Field", "spec.action")))
}
