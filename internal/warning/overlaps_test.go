// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// indexOf returns an index of the policies.
func indexOf(policies []v1alpha1.RateLimitPolicy) *MatchIndex {
	x := &MatchIndex{}
	for i := range policies {
		x.Replace(nil, &policies[i])
	}
	return x
}

func TestOverlaps(t *testing.T) {
	match := func(hosts ...string) v1alpha1.Match { return v1alpha1.Match{Hosts: hosts} }
	named := func(name string, matches ...v1alpha1.Match) v1alpha1.RateLimitPolicy {
		b := testpolicy.Make(name).Limit("l", fixed, 5, "1m")
		for _, m := range matches {
			b = b.Match(m)
		}
		return *b.Obj()
	}
	disabled := named("shop/off", match("a"))
	disabled.Spec.Mode = v1alpha1.ModeDisabled
	entries := func(e ...string) v1alpha1.Match {
		var m v1alpha1.Match
		for _, key := range e {
			m.Descriptors = append(m.Descriptors, v1alpha1.DescriptorMatch{Key: key})
		}
		return m
	}
	tests := map[string]struct {
		policy  v1alpha1.RateLimitPolicy
		others  []v1alpha1.RateLimitPolicy
		trusted bool
		want    []string
	}{
		"itself":        {policy: named("shop/p", match("a")), others: []v1alpha1.RateLimitPolicy{named("shop/p", match("a"))}},
		"another host":  {policy: named("shop/p", match("a")), others: []v1alpha1.RateLimitPolicy{named("shop/q", match("b"))}},
		"another field": {policy: named("shop/p", match("a")), others: []v1alpha1.RateLimitPolicy{named("shop/q", v1alpha1.Match{Methods: []string{"a"}})}},
		"no matches":    {policy: named("shop/p"), others: []v1alpha1.RateLimitPolicy{named("shop/q")}},
		"disabled":      {policy: named("shop/p", match("a")), others: []v1alpha1.RateLimitPolicy{disabled}},
		"in another order": {
			policy: named("shop/p", match("x"), match("a", "b")), others: []v1alpha1.RateLimitPolicy{named("shop/q", match("b", "a"), match("y"))},
			want: []string{"spec.matches[1]: same match as shop/q;"},
		},
		"descriptors in another order": {
			policy: named("shop/p", entries("a", "b")), others: []v1alpha1.RateLimitPolicy{named("shop/q", entries("b", "a"))},
			want: []string{"spec.matches[0]: same match as shop/q;"},
		},
		"many": {
			policy: named("shop/p", match("a")), others: []v1alpha1.RateLimitPolicy{
				named("shop/s", match("a")), named("shop/q", match("a"), match("a")), named("shop/t", match("a")), named("shop/r", match("a")), named("bank/q", match("a")),
			},
			want: []string{"spec.matches[0]: same match as shop/q, shop/r, shop/s, 2 more;"},
		},
		"in another Namespace": {
			policy: named("shop/p", match("a")), others: []v1alpha1.RateLimitPolicy{named("bank/q", match("a"))},
			want: []string{"spec.matches[0]: same match as policies of other Namespaces (1);"},
		},
		"in another Namespace, for trusted authors": {
			policy: named("shop/p", match("a")), others: []v1alpha1.RateLimitPolicy{named("bank/q", match("a"))}, trusted: true,
			want: []string{"spec.matches[0]: same match as bank/q;"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			expect(t, Overlaps(&tc.policy, indexOf(tc.others), tc.trusted), tc.want...)
		})
	}
}

// While random policies come, change and go, which often have equal matches, the warnings are
// the warnings of a comparison with every policy, and at the end the index is empty.
func TestOverlapsEqualThoseOfAScan(t *testing.T) {
	g := NewWithT(t)
	random := rand.New(rand.NewPCG(5, 6))
	index, policies, warned := &MatchIndex{}, map[string]*v1alpha1.RateLimitPolicy{}, 0
	for generation := range int64(10_000) {
		id := fmt.Sprintf("ns%d/p%d", random.IntN(3), random.IntN(12))
		old := policies[id]
		changed := randomPolicy(random, id)
		changed.Generation = generation
		switch {
		case old == nil:
			index.Replace(nil, changed)
		case random.IntN(3) == 0:
			index.Replace(old, nil)
			delete(policies, id)
			continue
		default:
			index.Replace(old, changed)
		}
		policies[id] = changed
		trusted := random.IntN(2) == 0
		want := overlapsByScan(changed, policies, trusted)
		g.Expect(Overlaps(changed, index, trusted)).To(Equal(want))
		warned += len(want)
	}
	g.Expect(warned).To(BeNumerically(">", 1000))
	for _, policy := range policies {
		index.Replace(policy, nil)
	}
	g.Expect(index.names).To(BeEmpty())
}

// A recreated policy may have the generation of the deleted one.
func TestIndexReplacesARecreatedPolicy(t *testing.T) {
	g := NewWithT(t)
	old, changed := manyPolicies(1, 0)[0], manyPolicies(1, 1)[0]
	old.UID, changed.UID = "a", "b"
	index := indexOf([]v1alpha1.RateLimitPolicy{old})
	index.Replace(&old, &changed)
	_, count := index.others(keyOf(&compile.MatchesOf(&changed)[0]), policy().Obj(), true, 1)
	g.Expect(count).To(Equal(1))
	_, count = index.others(keyOf(&compile.MatchesOf(&old)[0]), policy().Obj(), true, 1)
	g.Expect(count).To(BeZero())
}

// randomPolicy returns a policy with matches of few values, which are easily confused: an
// entry of one list may be one of another, or the end of another entry.
func randomPolicy(random *rand.Rand, id string) *v1alpha1.RateLimitPolicy {
	list := func() (all []string) {
		for _, value := range []string{"a", "ab", "b"} {
			if random.IntN(6) == 0 {
				all = append(all, value)
			}
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		return all
	}
	b := testpolicy.Make(id)
	if random.IntN(3) == 0 {
		b.Target("HTTPRoute", "a")
	}
	if random.IntN(4) == 0 {
		b.Target("Gateway", "a")
	}
	for range random.IntN(5) {
		m := v1alpha1.Match{Hosts: list(), Methods: list(), Paths: list()}
		if random.IntN(4) == 0 {
			m.Domain = "a"
		}
		if random.IntN(4) == 0 {
			m.When = "a"
		}
		for _, key := range list() {
			m.Descriptors = append(m.Descriptors, v1alpha1.DescriptorMatch{Key: key, Value: strings.Repeat("b", random.IntN(2))})
		}
		b.Match(m)
	}
	policy := b.Obj()
	if random.IntN(5) == 0 {
		policy.Spec.Mode = v1alpha1.ModeDisabled
	}
	return policy
}

// overlapsByScan compares every match with every other one, by their sorted text.
func overlapsByScan(policy *v1alpha1.RateLimitPolicy, others map[string]*v1alpha1.RateLimitPolicy, trusted bool) (warnings []string) {
	texts := matchTexts(policy)
	for i, text := range texts {
		var named []string
		count := 0
		for id, other := range others {
			if other.Spec.Mode == v1alpha1.ModeDisabled || id == nameOf(policy) || !slices.Contains(matchTexts(other), text) {
				continue
			}
			count++
			if trusted || other.Namespace == policy.Namespace {
				named = append(named, id)
			}
		}
		slices.Sort(named)
		at := fmt.Sprintf("spec.matches[%d]", i)
		if len(policy.Spec.Matches) == 0 {
			at = "spec.targetRefs"
		}
		if count > 0 {
			warnings = append(warnings, fmt.Sprintf("%s: same match as %s; a request must pass every policy",
				at, nameList(named[:min(len(named), 3)], count)))
		}
	}
	return warnings
}

// matchTexts returns what each match selects, with the targets and their Namespace.
func matchTexts(policy *v1alpha1.RateLimitPolicy) (texts []string) {
	var targets []string
	for _, r := range policy.Spec.TargetRefs {
		targets = append(targets, fmt.Sprintf("%s %s/%s ", r.Kind, policy.Namespace, r.Name))
	}
	slices.Sort(targets)
	prefix := strings.Join(targets, "")
	for _, m := range policy.Spec.Matches {
		texts = append(texts, prefix+sortedText(m))
	}
	if len(texts) == 0 && prefix != "" {
		texts = []string{prefix + sortedText(v1alpha1.Match{})}
	}
	return texts
}

// sortedText returns the match as JSON with sorted lists.
func sortedText(m v1alpha1.Match) string {
	m.Hosts, m.Methods, m.Paths = slices.Sorted(slices.Values(m.Hosts)), slices.Sorted(slices.Values(m.Methods)), slices.Sorted(slices.Values(m.Paths))
	m.Descriptors = slices.SortedFunc(slices.Values(m.Descriptors), func(a, b v1alpha1.DescriptorMatch) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Value, b.Value))
	})
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and lists of strings always encode
	}
	return string(text)
}

// manyPolicies returns policies with 16 matches each, of which the first ones are equal in
// all policies.
func manyPolicies(count, equal int) []v1alpha1.RateLimitPolicy {
	policies := make([]v1alpha1.RateLimitPolicy, count)
	for i := range policies {
		b := testpolicy.Make(fmt.Sprintf("shop/p%d", i))
		for j := range 16 {
			host := fmt.Sprintf("p%d-%d.example", i, j)
			if j < equal {
				host = fmt.Sprintf("%d.example", j)
			}
			b.Match(v1alpha1.Match{Hosts: []string{host}, Paths: []string{"/*"}})
		}
		policies[i] = *b.Obj()
	}
	return policies
}

// Overlaps among 10,000 policies with 16 matches each, of which some are in all policies.
func BenchmarkOverlaps(b *testing.B) {
	for _, equal := range []int{0, 1, 16} {
		b.Run(fmt.Sprintf("equal=%d", equal), func(b *testing.B) {
			policies := manyPolicies(10_000, equal)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			index := indexOf(policies)
			runtime.GC()
			runtime.ReadMemStats(&after)
			for b.Loop() {
				Overlaps(&policies[0], index, true)
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(policies)), "heap-B/policy")
		})
	}
}

// What a change of a spec with 16 matches costs while 10,000 policies share them.
func BenchmarkMatchIndexUpdate(b *testing.B) {
	policies := manyPolicies(10_000, 16)
	index := indexOf(policies)
	changed := policies[0].DeepCopy()
	changed.Generation++
	for b.Loop() {
		index.Replace(&policies[0], changed)
	}
}

// The overlaps of a policy among 10,000 with 16 matches each take at most five times as long as among 300, even if
// the matches are in all policies.
func TestOverlapsAreFoundFast(t *testing.T) {
	for _, equal := range []int{0, 16} {
		search := func(policies int) func() time.Duration {
			all := manyPolicies(policies, equal)
			index := indexOf(all)
			return func() time.Duration {
				started := time.Now()
				Overlaps(&all[0], index, true)
				return time.Since(started)
			}
		}
		searchFew, searchMany := search(300), search(10_000)
		few, many := time.Hour, time.Hour
		for range 30 { // in turns, since the machine may be slower for a while
			few, many = min(few, searchFew()), min(many, searchMany())
		}
		NewWithT(t).Expect(many).To(BeNumerically("<=", 5*few), "%d equal matches", equal)
	}
}
