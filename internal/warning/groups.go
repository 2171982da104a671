// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// groupsWhat names the comparison for Review.Unfinished.
const groupsWhat = "keys of other groups"

// Groups warns of the groups that overrides of the policy, whose plan is given, select: groups without keys, groups that share
// keys, for which the first override decides, and keys that stand for a network or that no request has. keyGroups are the key
// groups of its Namespace. It names no key, because the author of a policy may not be permitted to read them.
func (r *Review) Groups(policy *v1alpha1.RateLimitPolicy, of *plan.Plan, keyGroups []v1alpha1.RateLimitKeyGroup) (warnings []string) {
	selecting := overridesByGroup(policy)
	if len(selecting) == 0 {
		return nil
	}
	objects := objectsByGroup(keyGroups, func(group string) bool { _, selects := selecting[group]; return selects })
	fits := map[string]*groupFit{}
	shared := r.sharedByOverrides(selecting, keyGroups, objects, func(group, key string) {
		if fits[group] == nil {
			fits[group] = &groupFit{}
		}
		fits[group].add(of, key)
	})
	for i := range policy.Spec.Overrides {
		for j, group := range policy.Spec.Overrides[i].Groups {
			path, both := at("overrides", i).Child("groups").Index(j), shared[group]
			switch {
			case len(objects[group]) == 0:
				warnings = append(warnings, fmt.Sprintf("%s: no RateLimitKeyGroup of the Namespace has keys of the group %s", path, group))
				continue
			case selecting[group] == i && both != nil:
				warnings = append(warnings, fmt.Sprintf("%s: %d of its keys are also in groups of earlier overrides, which decide; the first is %s (%s)",
					path, both.keys, at("overrides", both.first), policy.Spec.Overrides[both.first].Name))
			}
			warnings = append(warnings, fits[group].warnings(path)...)
		}
	}
	return warnings
}

// groupFit counts the keys of a group, in all its objects, that are not the key of a request as they are.
type groupFit struct{ inside, misfits int }

func (f *groupFit) add(of *plan.Plan, key string) {
	if _, problem := of.Key[0].Fit(key); problem != "" { // a policy with groups has a key of one part
		f.misfits++
	} else if of.IsInside(key) {
		f.inside++
	}
}

func (f *groupFit) warnings(path *field.Path) (warnings []string) {
	if f == nil { // the review was over before
		return nil
	}
	if f.inside > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: %d of its keys are addresses inside networks that the policy counts as one client, and stand for these networks", path, f.inside))
	}
	if f.misfits > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: no request has %d of its keys: they have outer spaces, or are not addresses, or are wider networks than the policy counts as one client", path, f.misfits))
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

// objectsByGroup returns the indexes of the key groups that feed each of the wanted groups.
func objectsByGroup(keyGroups []v1alpha1.RateLimitKeyGroup, wanted func(group string) bool) map[string][]int {
	objects := map[string][]int{}
	for i := range keyGroups {
		if group := keyGroups[i].Spec.Group; wanted(group) {
			objects[group] = append(objects[group], i)
		}
	}
	return objects
}

// earlierKeys are the keys of a group that an earlier override selects by another group.
type earlierKeys struct {
	keys  int // how many
	first int // index of the earliest such override
}

// keyOwner is the state of one key.
type keyOwner struct {
	override int    // the earliest that selects it
	counted  string // the last group in which it was counted
}

// sharedByOverrides returns the shared keys of each group that the policy selects; nil if the review is over before. It calls
// visit for each key.
func (r *Review) sharedByOverrides(
	selecting map[string]int, keyGroups []v1alpha1.RateLimitKeyGroup, objects map[string][]int, visit func(group, key string),
) map[string]*earlierKeys {
	owners := map[string]keyOwner{}
	whole := r.forEachKey(keyGroups, objects, func(group, key string) {
		visit(group, key)
		if owner, found := owners[key]; !found || selecting[group] < owner.override {
			owners[key] = keyOwner{override: selecting[group]}
		}
	})
	found := map[string]*earlierKeys{}
	whole = whole && r.forEachKey(keyGroups, objects, func(group, key string) {
		owner := owners[key]
		if owner.override == selecting[group] || owner.counted == group {
			return
		}
		owners[key] = keyOwner{owner.override, group}
		if found[group] == nil {
			found[group] = &earlierKeys{first: owner.override}
		}
		e := found[group]
		e.keys, e.first = e.keys+1, min(e.first, owner.override)
	})
	if !whole {
		return nil
	}
	return found
}

// forEachKey visits the keys of the groups, one group after the other. It returns false if the review is over before.
func (r *Review) forEachKey(keyGroups []v1alpha1.RateLimitKeyGroup, objects map[string][]int, visit func(group, key string)) bool {
	for _, group := range slices.Sorted(maps.Keys(objects)) {
		for _, i := range objects[group] {
			for _, key := range keyGroups[i].Spec.Keys {
				if !r.Step(1, groupsWhat) {
					return false
				}
				visit(group, key)
			}
		}
	}
	return true
}

// maxShared bounds the warnings of keys in two groups: an API server returns 4 KiB of warnings.
const maxShared = 16

// KeyGroup warns of a group that no policy selects, and of keys for which a policy selects another group first.
// keyGroups and policies belong to its Namespace; the key group itself may be among them, in an older form.
func (r *Review) KeyGroup(group *v1alpha1.RateLimitKeyGroup, keyGroups []v1alpha1.RateLimitKeyGroup, policies []v1alpha1.RateLimitPolicy) (warnings []string) {
	selecting, others := r.selectedBeside(group.Spec.Group, policies)
	if len(selecting) == 0 && len(r.unfinished) == 0 {
		return []string{"spec.group: no override of a policy in the Namespace selects the group " + group.Spec.Group}
	}
	shared := r.sharedWith(group, keyGroups, others)
	if len(shared) == 0 {
		return nil
	}
	for _, policy := range selecting {
		overrides := overridesByGroup(policy)
		if !r.Step(len(overrides), groupsWhat) {
			break
		}
		for _, other := range slices.Sorted(maps.Keys(overrides)) {
			keys, first := shared[other], min(overrides[other], overrides[group.Spec.Group])
			switch {
			case keys == nil || overrides[other] == overrides[group.Spec.Group]:
			case len(warnings) == maxShared:
				return append(warnings, "spec.keys: more keys are also in other groups")
			default:
				warnings = append(warnings, fmt.Sprintf("spec.keys: also in the group %s: %s; override %s of policy %s comes first and decides",
					other, keys, policy.Spec.Overrides[first].Name, policy.Name))
			}
		}
	}
	return warnings
}

// selectedBeside returns the policies that select the group, and the other groups that they select.
func (r *Review) selectedBeside(group string, policies []v1alpha1.RateLimitPolicy) (selecting []*v1alpha1.RateLimitPolicy, others map[string]bool) {
	others = map[string]bool{}
	for i := range policies {
		if !r.Step(1+selectedGroups(&policies[i]), groupsWhat) {
			break
		}
		overrides := policies[i].Spec.Overrides
		if !slices.ContainsFunc(overrides, func(o v1alpha1.Override) bool { return slices.Contains(o.Groups, group) }) {
			continue
		}
		selecting = append(selecting, &policies[i])
		for j := range overrides {
			for _, other := range overrides[j].Groups {
				others[other] = true
			}
		}
	}
	delete(others, group)
	return selecting, others
}

func selectedGroups(policy *v1alpha1.RateLimitPolicy) (n int) {
	for i := range policy.Spec.Overrides {
		n += len(policy.Spec.Overrides[i].Groups)
	}
	return n
}

// sharedKeys are the keys that two groups have in common.
type sharedKeys struct {
	first []string // at most maxNamed, in alphabetical order
	count int
}

func (s *sharedKeys) add(key string) {
	s.count++
	if i, _ := slices.BinarySearch(s.first, key); i < maxNamed {
		s.first = slices.Insert(s.first, i, key)
		s.first = s.first[:min(len(s.first), maxNamed)]
	}
}

func (s *sharedKeys) String() string {
	var quoted []string
	for _, key := range s.first {
		quoted = append(quoted, strconv.Quote(key))
	}
	return nameList(quoted, s.count)
}

// sharedWith returns the keys that the key group has in common with each of the other groups.
func (r *Review) sharedWith(group *v1alpha1.RateLimitKeyGroup, keyGroups []v1alpha1.RateLimitKeyGroup, others map[string]bool) map[string]*sharedKeys {
	counted := make(map[string]string, len(group.Spec.Keys)) // the last group in which each key was counted
	for _, key := range group.Spec.Keys {
		counted[key] = group.Spec.Group
	}
	found := map[string]*sharedKeys{}
	r.forEachKey(keyGroups, objectsByGroup(keyGroups, func(name string) bool { return others[name] }), func(other, key string) {
		if last, both := counted[key]; !both || last == other {
			return
		}
		counted[key] = other
		if found[other] == nil {
			found[other] = &sharedKeys{}
		}
		found[other].add(key)
	})
	return found
}
