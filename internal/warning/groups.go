// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Groups warns of the groups that overrides of the policy select: groups without keys, and groups that share keys,
// for which the first override decides. keyGroups are the key groups of its Namespace. It names no key, because the
// author of a policy may not be permitted to read them.
func Groups(policy *v1alpha1.RateLimitPolicy, keyGroups []v1alpha1.RateLimitKeyGroup) (warnings []string) {
	selecting := overridesByGroup(policy)
	if len(selecting) == 0 {
		return nil
	}
	keys := shared(selecting, keyGroups)
	for i := range policy.Spec.Overrides {
		for j, group := range policy.Spec.Overrides[i].Groups {
			path, both := at("overrides", i).Child("groups").Index(j), keys[group]
			switch {
			case !slices.ContainsFunc(keyGroups, func(g v1alpha1.RateLimitKeyGroup) bool { return g.Spec.Group == group }):
				warnings = append(warnings, fmt.Sprintf("%s: no RateLimitKeyGroup of the Namespace has keys of the group %s", path, group))
			case selecting[group] == i && both != nil:
				warnings = append(warnings, fmt.Sprintf("%s: %d of its keys are also in groups of earlier overrides, which decide; the first is %s (%s)",
					path, len(both.keys), at("overrides", both.first), policy.Spec.Overrides[both.first].Name))
			}
		}
	}
	return warnings
}

// overridesByGroup returns the index of the first override that selects each group.
func overridesByGroup(policy *v1alpha1.RateLimitPolicy) map[string]int {
	selecting := map[string]int{}
	for i := range policy.Spec.Overrides {
		for _, group := range policy.Spec.Overrides[i].Groups {
			if _, earlier := selecting[group]; !earlier {
				selecting[group] = i
			}
		}
	}
	return selecting
}

// sharedKeys are the keys of a group that an earlier override selects by another group.
type sharedKeys struct {
	keys  map[string]struct{}
	first int // index of the earliest such override
}

// shared returns the shared keys of each group that the policy selects.
func shared(selecting map[string]int, keyGroups []v1alpha1.RateLimitKeyGroup) map[string]*sharedKeys {
	deciding := map[string]int{} // index of the override that decides for a key
	forEachKey(selecting, keyGroups, func(_ string, index int, key string) {
		if earlier, found := deciding[key]; !found || index < earlier {
			deciding[key] = index
		}
	})
	found := map[string]*sharedKeys{}
	forEachKey(selecting, keyGroups, func(group string, index int, key string) {
		earlier := deciding[key]
		if earlier == index {
			return
		}
		s := found[group]
		if s == nil {
			s = &sharedKeys{keys: map[string]struct{}{}, first: earlier}
			found[group] = s
		}
		s.keys[key], s.first = struct{}{}, min(s.first, earlier)
	})
	return found
}

// forEachKey visits the keys of the groups that overrides select, with the index of the first override.
func forEachKey(selecting map[string]int, keyGroups []v1alpha1.RateLimitKeyGroup, visit func(group string, index int, key string)) {
	for i := range keyGroups {
		group := keyGroups[i].Spec.Group
		index, selected := selecting[group]
		if !selected {
			continue
		}
		for _, key := range keyGroups[i].Spec.Keys {
			visit(group, index, key)
		}
	}
}

// KeyGroup warns of a group that no policy selects, and of keys for which a policy selects another group first.
// keyGroups and policies belong to its Namespace; the key group itself may be among them, in an older form.
func KeyGroup(group *v1alpha1.RateLimitKeyGroup, keyGroups []v1alpha1.RateLimitKeyGroup, policies []v1alpha1.RateLimitPolicy) (warnings []string) {
	used := false
	for i := range policies {
		selecting := overridesByGroup(&policies[i])
		index, selects := selecting[group.Spec.Group]
		used = used || selects
		if !selects || len(selecting) == 1 {
			continue
		}
		for _, other := range othersOf(selecting, group.Spec.Group) {
			keys := sharedWith(group, other, keyGroups)
			if len(keys) == 0 {
				continue
			}
			first := min(index, selecting[other])
			warnings = append(warnings, fmt.Sprintf("spec.keys: also in the group %s: %s; override %s of policy %s comes first and decides",
				other, nameList(keys[:min(len(keys), maxNamed)], len(keys)), policies[i].Spec.Overrides[first].Name, policies[i].Name))
		}
	}
	if !used {
		warnings = append(warnings, "spec.group: no override of a policy in the Namespace selects the group "+group.Spec.Group)
	}
	return warnings
}

// othersOf returns the groups that other overrides select, sorted.
func othersOf(selecting map[string]int, group string) (others []string) {
	for other, index := range selecting {
		if index != selecting[group] {
			others = append(others, other)
		}
	}
	slices.Sort(others)
	return others
}

// sharedWith returns the keys of the key group that the other group has too, sorted and quoted.
func sharedWith(group *v1alpha1.RateLimitKeyGroup, other string, keyGroups []v1alpha1.RateLimitKeyGroup) (keys []string) {
	own := make(map[string]struct{}, len(group.Spec.Keys))
	for _, key := range group.Spec.Keys {
		own[key] = struct{}{}
	}
	for i := range keyGroups {
		if keyGroups[i].Spec.Group != other {
			continue
		}
		for _, key := range keyGroups[i].Spec.Keys {
			if _, both := own[key]; both {
				delete(own, key)
				keys = append(keys, strconv.Quote(key))
			}
		}
	}
	slices.SortFunc(keys, strings.Compare)
	return keys
}
