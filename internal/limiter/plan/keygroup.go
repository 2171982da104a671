// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"slices"
)

// Bounds of key groups. The schema of the resource has the same bounds.
const (
	// MaxGroupKeys is the largest number of keys in one KeyGroup.
	MaxGroupKeys = 1000
	// MaxGroupKey is the length of the longest key in a KeyGroup, in characters.
	MaxGroupKey = 255
	// MaxGroups is the largest number of groups that one override selects.
	MaxGroups = 16
	// maxGroupBytes is the size of the largest encoding of a KeyGroup: each character may take 6 bytes in JSON.
	maxGroupBytes = MaxGroupKeys*(6*MaxGroupKey+3) + 4096
)

// KeyGroup is the compiled, immutable form of one RateLimitKeyGroup: some of the keys of a group of its Namespace. Several
// may feed one group. The encoding is stored in the registry.
type KeyGroup struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`

	// Group is the name by which overrides select the group.
	Group string `json:"group"`
	// Keys are values of keys with one part, in ascending order and distinct.
	Keys KeyList `json:"keys"`
}

// ID returns "keygroup:<namespace>/<name>".
func (g *KeyGroup) ID() string { return IDOf(KindKeyGroup, g.Namespace, g.Name) }

// Source implements Record.
func (g *KeyGroup) Source() (uid string, generation int64) { return g.UID, g.Generation }

// Validate implements Record.
func (g *KeyGroup) Validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !isName(g.Namespace) || !isName(g.Name) {
		fail("namespace %q and name %q must be lower-case DNS names", g.Namespace, g.Name)
	}
	if !isName(g.Group) {
		fail("group %q must be a lower-case DNS name", g.Group)
	}
	if g.Keys.Len() == 0 || g.Keys.Len() > MaxGroupKeys {
		fail("%d keys, 1 to %d are allowed", g.Keys.Len(), MaxGroupKeys)
	}
	for i := range g.Keys.Len() {
		key := g.Keys.At(i)
		if key == "" || longerThan(key, MaxGroupKey) {
			fail("keys[%d] must have 1 to %d characters", i, MaxGroupKey)
		}
		if i > 0 && g.Keys.At(i-1) >= key {
			fail("keys[%d] %q is not above the one before", i, key)
		}
	}
	return errors.Join(errs...)
}

// Outline returns the record without what only a replica needs, for a process that holds its encoding: a key group has no
// keys then.
func Outline(r Record) Record {
	if g, ok := r.(*KeyGroup); ok {
		outline := *g
		outline.Keys = KeyList{}
		return &outline
	}
	return r
}

func (g *KeyGroup) sizeLimit() int { return maxGroupBytes }

// validateGroups checks the groups that an override selects.
func (p *Plan) validateGroups(fail func(string, ...any), at string, o *Override) {
	if len(o.Groups) == 0 {
		return
	}
	if len(o.Groups) > MaxGroups {
		fail("%s has %d groups, at most %d", at, len(o.Groups), MaxGroups)
	}
	if len(o.Keys)+len(o.CIDRs) > 0 || o.When != "" {
		fail("%s has another selector beside groups", at)
	}
	if len(p.Key) != 1 {
		fail("%s.groups need a key of one part, not of %d", at, len(p.Key))
	}
	for i, group := range o.Groups {
		if !isName(group) || slices.Contains(o.Groups[:i], group) {
			fail("%s.groups[%d] %q must be a lower-case DNS name used once", at, i, group)
		}
	}
}
