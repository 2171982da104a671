// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

func keyGroup(group string, keys ...string) *v1alpha1.RateLimitKeyGroup {
	return &v1alpha1.RateLimitKeyGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "gold-07", UID: "u", Generation: 3},
		Spec:       v1alpha1.RateLimitKeyGroupSpec{Group: group, Keys: keys},
	}
}

func TestKeyGroup(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	written := []string{"globex", "acme", "globex", "Ümlaut", "a b"}
	compiled, problems := compile.KeyGroup(keyGroup("gold", written...))
	g.Expect(problems).To(BeEmpty())
	g.Expect(compiled).To(Equal(&plan.KeyGroup{
		Namespace: "shop", Name: "gold-07", UID: "u", Generation: 3, Group: "gold",
		Keys: plan.NewKeyList("a b", "acme", "globex", "Ümlaut"),
	}))
	g.Expect(written).To(Equal([]string{"globex", "acme", "globex", "Ümlaut", "a b"}), "the object is in a cache")
}

func TestKeyGroupRejectsWhatTheSchemaShouldHave(t *testing.T) {
	t.Parallel()
	many := make([]string, plan.MaxGroupKeys+1)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	for name, tc := range map[string]struct {
		group *v1alpha1.RateLimitKeyGroup
		want  string
	}{
		"no keys":       {keyGroup("gold"), "0 keys"},
		"too many keys": {keyGroup("gold", many...), "1001 keys"},
		"an empty key":  {keyGroup("gold", ""), "keys[0]"},
		"a long key":    {keyGroup("gold", strings.Repeat("ä", 256)), "keys[0]"},
		"no group":      {keyGroup("", "a"), `group ""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			compiled, problems := compile.KeyGroup(tc.group)
			g.Expect(compiled).To(BeNil())
			g.Expect(problems).To(ConsistOf(And(HaveField("Field", "spec"), HaveField("Detail", ContainSubstring(tc.want)))))
		})
	}
}

// The schema counts characters; memory is in bytes.
func TestKeysAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, problems := compile.KeyGroup(keyGroup("gold", "acme", strings.Repeat("ä", 127)))
	g.Expect(problems).To(BeEmpty())
	compiled, problems := compile.KeyGroup(keyGroup("gold", "acme", strings.Repeat("ä", 128)))
	g.Expect(compiled).To(BeNil())
	g.Expect(problems).To(ConsistOf(HaveField("Field", "spec.keys[1]")))
}

func TestGroupsOfAnOverride(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	policy := testpolicy.Make("shop/x").Key(testpolicy.PrincipalPart()).Limit("l", v1alpha1.AlgorithmGCRA, 1, "1s").Override(
		v1alpha1.Override{Name: "gold", Groups: []string{"gold", "partners"}, Action: v1alpha1.OverrideActionAllow}).Obj()
	compiled, problems := compile.Compile(policy, compile.Everything(), time.Time{})
	g.Expect(problems).To(BeEmpty())
	g.Expect(compiled.Overrides[0].Groups).To(Equal([]string{"gold", "partners"}))
}
