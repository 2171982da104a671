// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

var exceptionsNow = time.Date(2026, 11, 26, 5, 0, 0, 0, time.UTC)

// except returns an exception to policy shop/p.
func except(name string, length time.Duration, key ...string) *v1alpha1.RateLimitException {
	return &v1alpha1.RateLimitException{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 1},
		Spec: v1alpha1.RateLimitExceptionSpec{
			Policy: "p", Key: key, Until: metav1.NewTime(exceptionsNow.Add(length)),
			Limits: []v1alpha1.ExceptionLimit{{Name: "burst", Threshold: new(int64(6))}},
		},
	}
}

// warningsOf returns the warnings of the exception beside the indexed ones.
func warningsOf(t *testing.T, index *ExceptionIndex, e *v1alpha1.RateLimitException, policy *v1alpha1.RateLimitPolicy, of *plan.Plan) []string {
	t.Helper()
	compiled, problems := compile.Exception(e, policy, of, exceptionsNow)
	NewWithT(t).Expect(problems).To(BeEmpty())
	warnings, _ := index.Warnings(compiled, policy, of, exceptionsNow)
	return warnings
}

func TestExceptionWarnings(t *testing.T) {
	t.Parallel()
	burst := func() *builder { return policy().Limit("burst", fixed, 5, "1m") }
	keyed := burst().Key(testpolicy.PrincipalPart()).OnMissingKey(v1alpha1.OnMissingKeyShare).Override(
		override("by-address", keys("partner"), when("true")),
		override("gold", keys("acme"), change(v1alpha1.LimitOverride{Name: "burst", Threshold: new(int64(9))})),
		override("office", keys("acme", "office")),
	)
	skipping := burst().Key(testpolicy.PrincipalPart()).OnMissingKey(v1alpha1.OnMissingKeySkip)
	network := testpolicy.RemoteAddressPart()
	network.RemoteAddress = &v1alpha1.RemoteAddressKey{IPv4PrefixLength: new(int32(24))}
	addressed := burst().Key(network)
	tooHigh := except("b", 2*time.Hour, "acme")
	tooHigh.Spec.Limits[0].Threshold = new(int64(1000))
	others := func(all ...*v1alpha1.RateLimitException) []*v1alpha1.RateLimitException { return all }
	for name, tc := range map[string]struct {
		exception *v1alpha1.RateLimitException
		of        *builder
		others    []*v1alpha1.RateLimitException
		want      []string
	}{
		"a key":                      {except("a", time.Hour, "acme"), keyed, others(except("a", 2*time.Hour, "acme"), except("b", time.Hour, "globex")), nil},
		"the shared budget":          {except("a", time.Hour), burst(), nil, nil},
		"the budget without a key":   {except("a", time.Hour), keyed, nil, nil},
		"an override that may not":   {except("a", time.Hour, "partner"), keyed, nil, nil},
		"ended":                      {except("a", 0, "acme"), keyed, nil, []string{"spec.until: has passed, so the exception has no effect"}},
		"another that has ended":     {except("a", time.Hour, "acme"), keyed, others(except("b", 0, "acme")), nil},
		"another that is not valid":  {except("a", time.Hour, "acme"), keyed, others(tooHigh), nil},
		"another that ends later":    {except("a", time.Hour, "acme"), keyed, others(except("b", 2*time.Hour, "acme")), []string{"spec.key: exception b is for the same key: until 2026-11-26T06:00:00Z only b applies, which ends last"}},
		"another that ends earlier":  {except("a", 2*time.Hour, "acme"), keyed, others(except("b", time.Hour, "acme")), []string{"spec.key: exception b is for the same key: until 2026-11-26T06:00:00Z only a applies, which ends last"}},
		"several: the last decides":  {except("a", time.Hour, "acme"), keyed, others(except("b", 2*time.Hour, "acme"), except("c", 3*time.Hour, "acme")), []string{"spec.key: exception c is for the same key: until 2026-11-26T06:00:00Z only c applies, which ends last"}},
		"several: it decides itself": {except("a", 3*time.Hour, "acme"), keyed, others(except("b", time.Hour, "acme"), except("c", 2*time.Hour, "acme")), []string{"spec.key: exception c is for the same key: until 2026-11-26T07:00:00Z only a applies, which ends last"}},
		"an address of its network":  {except("a", time.Hour, "192.0.2.1"), addressed, others(except("b", 2*time.Hour, "192.0.2.9"), except("c", 3*time.Hour, "192.0.3.1")), []string{"spec.key: exception b is for the same key: until 2026-11-26T06:00:00Z only b applies, which ends last"}},
		"no request without a key":   {except("a", time.Hour), skipping, nil, []string{"spec.key: has no parts, and onMissingKey Skip lets no request without a key reach a limit"}},
		"two parts":                  {except("a", time.Hour, "a", "b"), keyed, nil, []string{"spec.key: only checks that name this key have it: shop/p has the key [principal]: give one part"}},
		"an exempt key":              {except("a", time.Hour, "office"), keyed, nil, []string{"spec.key: override office of the policy selects the key with action Allow, so the exception has no effect"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			index := &ExceptionIndex{}
			for _, other := range tc.others {
				index.Replace(nil, other)
			}
			NewWithT(t).Expect(warningsOf(t, index, tc.exception, tc.of.Obj(), planOf(t, tc.of))).To(Equal(tc.want))
		})
	}
}

// After any change, the exceptions whose warnings differ are among the affected ones.
func TestReplaceNamesAllExceptionsWithOtherWarnings(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	random := rand.New(rand.NewPCG(5, 6))
	b := policy().Limit("burst", fixed, 5, "1m").Key(testpolicy.PrincipalPart())
	of, index, all := planOf(t, b), &ExceptionIndex{}, map[string]*v1alpha1.RateLimitException{}
	warnings := func() map[string][]string {
		texts := map[string][]string{}
		for name, e := range all {
			texts[name] = warningsOf(t, index, e, b.Obj(), of)
		}
		return texts
	}
	before, changed := warnings(), 0
	for range 3000 {
		name := fmt.Sprint("e", random.IntN(9))
		was, is := all[name], except(name, time.Duration(1+random.IntN(6))*time.Hour, string(rune('a'+random.IntN(2))))
		if random.IntN(4) == 0 {
			is = nil
			delete(all, name)
		} else {
			all[name] = is
		}
		affected := index.Replace(was, is)
		after := warnings()
		for other, e := range all {
			if other != name && !slices.Equal(before[other], after[other]) {
				changed++
				g.Expect(affected).To(ContainElement(types.NamespacedName{Namespace: "shop", Name: e.Name}))
			}
		}
		before = after
	}
	g.Expect(changed).To(BeNumerically(">", 1000))
	for name, e := range all {
		g.Expect(index.NamesOf(types.NamespacedName{Namespace: "shop", Name: "p"})).To(ContainElement(types.NamespacedName{Namespace: "shop", Name: name}))
		index.Replace(e, nil)
	}
	g.Expect(index.policies).To(BeEmpty())
}

// A thousand exceptions for one key cost as much as a few: an edit affects the one that decides, and a warning examines two.
func TestManyExceptionsForOneKey(t *testing.T) {
	g := NewWithT(t)
	b := policy().Limit("burst", fixed, 5, "1m").Key(testpolicy.PrincipalPart())
	of := planOf(t, b)
	costs := func(n int) (edit, judgement float64) {
		index := &ExceptionIndex{}
		for i := range n {
			index.Replace(nil, except(fmt.Sprint("e", i), time.Duration(i+1)*time.Minute, "acme"))
		}
		last, second, middle := n-1, n-2, n/2
		replace := func(i int, length time.Duration) []types.NamespacedName {
			name := fmt.Sprint("e", i)
			return index.Replace(except(name, time.Duration(i+1)*time.Minute, "acme"), except(name, length, "acme"))
		}
		decider := types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("e", last)}
		g.Expect(replace(middle, time.Duration(middle+1)*time.Minute)).To(BeEmpty())
		g.Expect(replace(second, time.Second)).To(ConsistOf(decider))
		g.Expect(replace(middle, 1000*time.Hour)).To(HaveLen(n), "another one decides")
		edit = testing.AllocsPerRun(100, func() { replace(1, time.Minute) })
		compiled, _ := compile.Exception(except("e0", time.Minute, "acme"), b.Obj(), of, exceptionsNow)
		judgement = testing.AllocsPerRun(100, func() {
			warnings, _ := index.Warnings(compiled, b.Obj(), of, exceptionsNow)
			g.Expect(warnings).To(HaveLen(1))
		})
		return edit, judgement
	}
	edit, judgement := costs(500)
	twiceEdit, twiceJudgement := costs(1000)
	g.Expect(twiceEdit).To(BeNumerically("<=", edit))
	g.Expect(twiceJudgement).To(BeNumerically("<=", judgement))
}
