// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// maxNamed is the largest number of policies that one warning names.
const maxNamed = 3

// shape holds what is cheap to compare of a match. It rules out most policies of a
// cluster before the expensive comparison.
type shape struct {
	hosts, methods, paths, descriptors int
	domain, when                       string
}

func shapeOf(m *v1alpha1.Match) shape {
	return shape{
		hosts: len(m.Hosts), methods: len(m.Methods), paths: len(m.Paths), descriptors: len(m.Descriptors),
		domain: m.Domain, when: m.When,
	}
}

// canonical returns the same text for matches that differ only in the order of their
// lists.
func canonical(m *v1alpha1.Match) string {
	sorted := *m
	sorted.Hosts = slices.Sorted(slices.Values(m.Hosts))
	sorted.Methods = slices.Sorted(slices.Values(m.Methods))
	sorted.Paths = slices.Sorted(slices.Values(m.Paths))
	sorted.Descriptors = slices.SortedFunc(slices.Values(m.Descriptors), func(a, b v1alpha1.DescriptorMatch) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Value, b.Value))
	})
	text, err := json.Marshal(sorted)
	if err != nil {
		panic(err) // strings and lists of strings always encode
	}
	return string(text)
}

// overlappingPolicies warns of other policies, not Disabled, with a match that equals
// one of the policy. All of them apply to such a request, which may be intended. The
// names of policies in other Namespaces are given only if trusted.
func overlappingPolicies(policy *v1alpha1.RateLimitPolicy, others []v1alpha1.RateLimitPolicy, trusted bool) (warnings []string) {
	matches := policy.Spec.Matches
	shapes := make(map[shape]bool, len(matches))
	same := make(map[string][]int, len(matches))
	for i := range matches {
		shapes[shapeOf(&matches[i])] = true
		text := canonical(&matches[i])
		same[text] = append(same[text], i)
	}
	found := make([][]*v1alpha1.RateLimitPolicy, len(matches))
	for i := range others {
		other := &others[i]
		if other.Spec.Mode == v1alpha1.ModeDisabled || other.Namespace == policy.Namespace && other.Name == policy.Name {
			continue
		}
		for j := range other.Spec.Matches {
			candidate := &other.Spec.Matches[j]
			if !shapes[shapeOf(candidate)] {
				continue
			}
			for _, k := range same[canonical(candidate)] {
				if !slices.Contains(found[k], other) {
					found[k] = append(found[k], other)
				}
			}
		}
	}
	for k := range found {
		if len(found[k]) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s: same match as %s; a request must pass every policy",
				at("matches", k), nameList(found[k], policy.Namespace, trusted)))
		}
	}
	return warnings
}

// nameList returns up to maxNamed names in alphabetical order, and the number of the
// other policies.
func nameList(policies []*v1alpha1.RateLimitPolicy, namespace string, trusted bool) string {
	var named []string
	for _, p := range policies {
		if trusted || p.Namespace == namespace {
			named = append(named, p.Namespace+"/"+p.Name)
		}
	}
	slices.Sort(named)
	if len(named) > maxNamed {
		named = named[:maxNamed]
	}
	if hidden := len(policies) - len(named); hidden > 0 {
		more := fmt.Sprintf("%d more", hidden)
		if len(named) == 0 {
			more = fmt.Sprintf("policies of other Namespaces (%d)", hidden)
		}
		named = append(named, more)
	}
	return strings.Join(named, ", ")
}
