// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package groups

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// importedLabel is on the objects that an import made, with the name of the group.
	importedLabel = "ratelimit.weir.dev/imported-group"
	// keysOfShard is how many keys a new import places into one object, on average: half of what fits.
	keysOfShard = plan.MaxGroupKeys / 2
	// maxShards bounds --shards.
	maxShards = 10_000
)

// shardName is the end of the name of an imported object: its number, and how many there are.
var shardName = regexp.MustCompile(`-(\d+)-of-(\d+)$`)

// groupChange is what an import changes.
type groupChange struct {
	shards         int
	apply          []*v1alpha1.RateLimitKeyGroup // created, or with other keys
	remove         []string                      // names of objects
	unchanged      int
	added, removed []string // keys, sorted
	before         int      // keys of earlier imports
	foreign        int      // keys of objects of the group that no import made
}

func (c *groupChange) isEmpty() bool { return len(c.apply)+len(c.remove) == 0 }

// changeOf returns what makes the imported objects of the group have exactly these keys, which are sorted. Each key is
// placed by its hash, so that a later import with as many shards changes only the objects of changed keys. shards is
// their number; 0 keeps the number of an earlier import. Another number replaces all objects: the new ones are applied
// before the others are removed, so that no key leaves the group in between.
func changeOf(namespace, group string, keys []string, existing []v1alpha1.RateLimitKeyGroup, shards int) (*groupChange, error) {
	c := &groupChange{shards: shards}
	imported, before := c.findImported(group, existing)
	c.shards = cmp.Or(c.shards, (len(keys)+keysOfShard-1)/keysOfShard)
	placed := make([][]string, c.shards)
	for _, key := range keys {
		i := shardOf(key, c.shards)
		placed[i] = append(placed[i], key)
	}
	for i, own := range placed {
		if len(own) > plan.MaxGroupKeys {
			return nil, fmt.Errorf("object %d of %d would have %d keys, at most %d are allowed: divide the keys into more with --shards %d",
				i, c.shards, len(own), plan.MaxGroupKeys, (len(keys)+keysOfShard-1)/keysOfShard)
		}
		if len(own) == 0 {
			continue
		}
		name := fmt.Sprintf("%s-%0*d-of-%d", group, len(strconv.Itoa(c.shards-1)), i, c.shards)
		if old := imported[name]; old != nil && sameKeys(old.Spec.Keys, own) {
			c.unchanged++
		} else {
			c.apply = append(c.apply, importedObject(namespace, name, group, own))
		}
		delete(imported, name)
	}
	for name := range imported {
		c.remove = append(c.remove, name)
	}
	slices.Sort(c.remove)
	slices.Sort(before)
	before = slices.Compact(before)
	c.added, c.removed, c.before = missingFrom(before, keys), missingFrom(keys, before), len(before)
	return c, nil
}

// findImported returns the objects of the group that imports have made, by name, and their keys. It counts the keys of
// others, and keeps the number of shards unless the caller has set one.
func (c *groupChange) findImported(
	group string, existing []v1alpha1.RateLimitKeyGroup,
) (imported map[string]*v1alpha1.RateLimitKeyGroup, keys []string) {
	imported = map[string]*v1alpha1.RateLimitKeyGroup{}
	for i := range existing {
		o := &existing[i]
		if o.Spec.Group != group {
			continue
		}
		if o.Labels[importedLabel] != group {
			c.foreign += len(o.Spec.Keys)
			continue
		}
		imported[o.Name] = o
		keys = append(keys, o.Spec.Keys...)
		if found := shardName.FindStringSubmatch(o.Name); found != nil && c.shards == 0 {
			c.shards, _ = strconv.Atoi(found[2])
		}
	}
	return imported, keys
}

// shardOf returns the number of the object that has the key.
func shardOf(key string, shards int) int {
	sum := sha256.Sum256([]byte(key))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(shards)) //nolint:gosec // below the number of shards, which is positive
}

func importedObject(namespace, name, group string, keys []string) *v1alpha1.RateLimitKeyGroup {
	o := &v1alpha1.RateLimitKeyGroup{}
	o.APIVersion, o.Kind = v1alpha1.GroupVersion.String(), "RateLimitKeyGroup"
	o.Namespace, o.Name = namespace, name
	o.Labels = map[string]string{importedLabel: group}
	o.Spec = v1alpha1.RateLimitKeyGroupSpec{Group: group, Keys: keys}
	return o
}

// sameKeys reports whether the keys of an object are these, which are sorted and distinct, in any order.
func sameKeys(existing, keys []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(existing))), keys)
}

// missingFrom returns the keys that are not in list. Both are sorted.
func missingFrom(list, keys []string) (missing []string) {
	for _, key := range keys {
		if _, found := slices.BinarySearch(list, key); !found {
			missing = append(missing, key)
		}
	}
	return missing
}
