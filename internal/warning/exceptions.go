// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// maxJudged is the largest number of exceptions for one key that are compiled to find a valid one.
const maxJudged = 16

// ExceptionIndex finds exceptions by their policy and key: many for one key cost as much as two. The zero value is empty.
// It keeps the objects, which must not change.
type ExceptionIndex struct {
	mu       sync.Mutex
	policies map[types.NamespacedName]*policyExceptions
}

// policyExceptions are the exceptions to one policy.
type policyExceptions struct {
	of     *plan.Plan // the plan that determines which keys are equal; nil compares them as given
	byName map[string]*v1alpha1.RateLimitException
	byKey  map[exceptionKey][]*v1alpha1.RateLimitException // the one that ends last first
}

// exceptionKey is a hash of a key in the form of the requests.
type exceptionKey [16]byte

func policyNameOf(e *v1alpha1.RateLimitException) types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.Policy}
}

// Replace replaces an exception by its changed form; either may be nil. It returns the names of the exceptions for its
// keys whose warnings may change: all if another one ends last, one if another one ends second.
func (x *ExceptionIndex) Replace(was, is *v1alpha1.RateLimitException) (affected []types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if was != nil && is != nil && policyNameOf(was) == policyNameOf(is) && slices.Equal(was.Spec.Key, is.Spec.Key) {
		return x.change(is, func(p *policyExceptions) { p.remove(was.Name); p.add(is) })
	}
	if was != nil {
		affected = x.change(was, func(p *policyExceptions) { p.remove(was.Name) })
	}
	if is != nil {
		affected = append(affected, x.change(is, func(p *policyExceptions) { p.remove(is.Name); p.add(is) })...)
	}
	return affected
}

// change changes the exceptions to the policy of e, and returns whose warnings may change of those for the key of e.
func (x *ExceptionIndex) change(e *v1alpha1.RateLimitException, do func(*policyExceptions)) (affected []types.NamespacedName) {
	name := policyNameOf(e)
	p := x.policies[name]
	if p == nil {
		p = &policyExceptions{byName: map[string]*v1alpha1.RateLimitException{}, byKey: map[exceptionKey][]*v1alpha1.RateLimitException{}}
	}
	key := p.keyOf(e.Spec.Key)
	first, second := leaders(p.byKey[key])
	do(p)
	if x.policies == nil {
		x.policies = map[types.NamespacedName]*policyExceptions{}
	}
	if x.policies[name] = p; len(p.byName) == 0 {
		delete(x.policies, name)
	}
	all := p.byKey[key]
	newFirst, newSecond := leaders(all)
	switch {
	case len(all) == 1 && newFirst.Name == e.Name:
		all = nil // it has no other beside it
	case !haveSameEffect(first, newFirst):
	case !haveSameEffect(second, newSecond):
		all = all[:1]
	default:
		all = nil
	}
	for _, other := range all {
		affected = append(affected, types.NamespacedName{Namespace: other.Namespace, Name: other.Name})
	}
	return affected
}

// leaders returns the exception that ends last and the one before; nil for none.
func leaders(all []*v1alpha1.RateLimitException) (first, second *v1alpha1.RateLimitException) {
	if len(all) > 0 {
		first = all[0]
	}
	if len(all) > 1 {
		second = all[1]
	}
	return first, second
}

// haveSameEffect reports whether the warnings of other exceptions are the same beside both.
func haveSameEffect(a, b *v1alpha1.RateLimitException) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.Spec.Until.Equal(&b.Spec.Until) && a.Spec.Action == b.Spec.Action && equality.Semantic.DeepEqual(a.Spec.Limits, b.Spec.Limits)
}

// NamesOf returns the names of the exceptions to the policy, in no order.
func (x *ExceptionIndex) NamesOf(policy types.NamespacedName) (names []types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.policies[policy]; p != nil {
		for name := range p.byName {
			names = append(names, types.NamespacedName{Namespace: policy.Namespace, Name: name})
		}
	}
	return names
}

// Warnings warns of an exception to the policy, whose plan is given, that has ended, that is for the key of another one,
// or that has no effect. Of several others for its key, it names the one that ends last. It returns also when the other
// one ends, if the warning is no longer true then; zero is never.
func (x *ExceptionIndex) Warnings(
	e *plan.Exception, policy *v1alpha1.RateLimitPolicy, of *plan.Plan, now time.Time,
) (warnings []string, untrue time.Time) {
	if !now.Before(e.Until()) {
		return []string{"spec.until: has passed, so the exception has no effect"}, untrue
	}
	if other := x.beside(e, policy, of, now); other != nil {
		decides, until := e.Name, other.Until()
		if other.EndsAfter(e) {
			decides, until = other.Name, e.Until()
		} else {
			untrue = until
		}
		warnings = append(warnings, fmt.Sprintf("spec.key: exception %s is for the same key: until %s only %s applies, which ends last",
			other.Name, until.UTC().Format(time.RFC3339), decides))
	}
	return append(warnings, unreachedKey(e, of)...), untrue
}

// beside returns the valid exception for the key of e that ends last, apart from e; nil for none.
func (x *ExceptionIndex) beside(e *plan.Exception, policy *v1alpha1.RateLimitPolicy, of *plan.Plan, now time.Time) *plan.Exception {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.policies[types.NamespacedName{Namespace: policy.Namespace, Name: policy.Name}]
	if p == nil {
		return nil
	}
	p.compareKeysAs(of)
	all := p.byKey[p.keyOf(e.Key)]
	for _, other := range all[:min(len(all), maxJudged)] {
		if !now.Before(other.Spec.Until.Time) {
			return nil
		}
		if other.Name == e.Name {
			continue
		}
		if compiled, _ := compile.Exception(other, policy, of, now); compiled != nil {
			return compiled
		}
	}
	return nil
}

// compareKeysAs compares the keys as the plan does, which brings addresses to networks.
func (p *policyExceptions) compareKeysAs(of *plan.Plan) {
	was := p.of
	p.of = of
	if was != nil && slices.EqualFunc(was.Key, of.Key, func(a, b plan.KeyPart) bool {
		return a.Type == b.Type && a.IPv4PrefixLength == b.IPv4PrefixLength && a.IPv6PrefixLength == b.IPv6PrefixLength
	}) {
		return
	}
	clear(p.byKey)
	for _, e := range p.byName {
		p.add(e)
	}
}

func (p *policyExceptions) keyOf(parts []string) exceptionKey {
	if p.of != nil {
		parts = compile.ExceptionKey(parts, p.of)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return exceptionKey(sum[:len(exceptionKey{})])
}

func (p *policyExceptions) add(e *v1alpha1.RateLimitException) {
	p.byName[e.Name] = e
	key := p.keyOf(e.Spec.Key)
	i, _ := slices.BinarySearchFunc(p.byKey[key], e, byEnd)
	p.byKey[key] = slices.Insert(p.byKey[key], i, e)
}

func (p *policyExceptions) remove(name string) {
	e := p.byName[name]
	if e == nil {
		return
	}
	delete(p.byName, name)
	key := p.keyOf(e.Spec.Key)
	if i, found := slices.BinarySearchFunc(p.byKey[key], e, byEnd); found {
		p.byKey[key] = slices.Delete(p.byKey[key], i, i+1)
	}
	if len(p.byKey[key]) == 0 {
		delete(p.byKey, key)
	}
}

// byEnd orders exceptions as plan.Exception.EndsAfter does.
func byEnd(a, b *v1alpha1.RateLimitException) int {
	return cmp.Or(cmp.Compare(b.Spec.Until.UnixMilli(), a.Spec.Until.UnixMilli()), strings.Compare(a.Name, b.Name))
}

// unreachedKey warns of a key that no request has, or that an override exempts or denies.
func unreachedKey(e *plan.Exception, of *plan.Plan) []string {
	if len(e.Key) == 0 && len(of.Key) > 0 {
		if of.OnMissingKey == plan.MissingKeyShare {
			return nil
		}
		return []string{fmt.Sprintf("spec.key: has no parts, and onMissingKey %s lets no request without a key reach a limit", of.OnMissingKey)}
	}
	if _, err := of.FitKey(e.Key); err != nil {
		return []string{"spec.key: only checks that name this key have it: " + err.Error()}
	}
	for i := range of.Overrides {
		o := &of.Overrides[i]
		if len(e.Key) != 1 || len(o.CIDRs) > 0 || o.When != "" || !slices.Contains(of.KeysOf(o), e.Key[0]) {
			continue
		}
		if o.Action != plan.ActionLimit {
			return []string{fmt.Sprintf("spec.key: override %s of the policy selects the key with action %s, so the exception has no effect", o.Name, o.Action)}
		}
		return nil
	}
	return nil
}
