// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Action is the effect of an override on the callers it selects.
type Action string

// The actions of an override.
const (
	ActionLimit Action = "Limit"
	ActionAllow Action = "Allow"
	ActionDeny  Action = "Deny"
)

// Override changes a policy for the callers it selects. All selectors that are set must
// hold; at least one is set.
type Override struct {
	Name string `json:"name"`
	// Keys are values of the key, which must have one part. They are compared exactly, and as KeysOf returns them.
	Keys []string `json:"keys,omitempty"`
	// CIDRs are networks of the client address, without host bits; IPv4 networks are
	// not IPv4-mapped.
	CIDRs []netip.Prefix `json:"cidrs,omitempty"`
	// When is an expression that must yield true.
	When string `json:"when,omitempty"`
	// Groups are names of groups of the Namespace, of which one must have the key. They are the only selector.
	Groups []string `json:"groups,omitempty"`
	Action Action   `json:"action"`
	// Limits are the limits that change, with ActionLimit.
	Limits []LimitOverride `json:"limits,omitempty"`
}

// LimitOverride is other numbers of one limit of the plan, of an override or a candidate; 0 inherits.
// It contains only the changes, because 64 overrides with all numbers of 16 limits would exceed
// MaxEncodedBytes.
type LimitOverride struct {
	Name         string `json:"name"`
	Threshold    int64  `json:"threshold,omitempty"`
	WindowMillis int64  `json:"windowMillis,omitempty"`
	Burst        int64  `json:"burst,omitempty"`
	BucketMicros int64  `json:"bucketMicros,omitempty"`
	BlockMillis  int64  `json:"blockMillis,omitempty"`
}

// LimitsOf returns all limits of the plan, with the numbers of the override.
func (p *Plan) LimitsOf(o *Override) []Limit {
	limits := slices.Clone(p.Limits)
	for i := range limits {
		for j := range o.Limits {
			if o.Limits[j].Name == limits[i].Name {
				limits[i] = o.Limits[j].apply(limits[i])
				if o.Limits[j].Threshold != 0 && limits[i].Algorithm.Refills() {
					limits[i].StateSuffix = o.Name
				}
			}
		}
	}
	return limits
}

func (o *LimitOverride) apply(l Limit) Limit {
	l.Threshold = cmp.Or(o.Threshold, l.Threshold)
	l.WindowMillis = cmp.Or(o.WindowMillis, l.WindowMillis)
	l.Burst = cmp.Or(o.Burst, l.Burst)
	l.BucketMicros = cmp.Or(o.BucketMicros, l.BucketMicros)
	if o.BlockMillis != 0 {
		l.BlockMillis, l.BlocksMillis, l.EscalationMillis = o.BlockMillis, nil, 0
	}
	return l
}

// Stricter returns the limit, which an override may have changed, with the stricter numbers of itself and of
// another form of the same limit: the smaller threshold and burst, the longer window and the longer block.
// It counts in the state of the longer window, or of the slower refill.
func (l Limit) Stricter(other Limit) Limit {
	strict, loose := l, other
	if l.Algorithm.Refills() {
		// threshold / window, without a division
		if other.Threshold*l.WindowMillis < l.Threshold*other.WindowMillis {
			strict, loose = other, l
		}
	} else {
		if other.WindowMillis > l.WindowMillis {
			strict, loose = other, l
		}
		strict.Threshold = min(l.Threshold, other.Threshold)
	}
	strict.Burst = min(l.Burst, other.Burst)
	if loose.LongestBlock() > strict.LongestBlock() {
		strict.BlockMillis, strict.BlocksMillis, strict.EscalationMillis = loose.BlockMillis, loose.BlocksMillis, loose.EscalationMillis
	}
	return strict
}

func (p *Plan) validateOverrides(fail func(string, ...any)) {
	if len(p.Overrides) > MaxOverrides {
		fail("%d overrides, at most %d", len(p.Overrides), MaxOverrides)
	}
	seen := map[string]bool{}
	for i := range p.Overrides {
		o, at := &p.Overrides[i], fmt.Sprintf("overrides[%d]", i)
		if !isName(o.Name) || seen[o.Name] {
			fail("%s.name %q must be a lower-case DNS name used once", at, o.Name)
		}
		seen[o.Name] = true
		p.validateSelectors(fail, at, o)
		p.validateAction(fail, at, o)
	}
}

func (p *Plan) validateSelectors(fail func(string, ...any), at string, o *Override) {
	p.validateGroups(fail, at, o)
	if len(o.Keys)+len(o.CIDRs)+len(o.Groups) == 0 && o.When == "" {
		fail("%s has no selector", at)
	}
	if len(o.Keys) > MaxSelected || len(o.CIDRs) > MaxSelected {
		fail("%s has %d keys and %d cidrs, at most %d of each", at, len(o.Keys), len(o.CIDRs), MaxSelected)
	}
	if len(o.Keys) > 0 && len(p.Key) != 1 {
		fail("%s.keys need a key of one part, not of %d", at, len(p.Key))
	}
	if slices.Contains(o.Keys, "") {
		fail("%s.keys hold an empty value", at)
	}
	for j, network := range o.CIDRs {
		if !isNormalized(network) {
			fail("%s.cidrs[%d] %q is not a normalized network", at, j, network)
		}
	}
	if longerThan(o.When, MaxExpression) {
		fail("%s.when is longer than %d characters", at, MaxExpression)
	}
}

// isNormalized reports whether the network can be compared with normalized addresses.
func isNormalized(network netip.Prefix) bool {
	return network.IsValid() && network == network.Masked() && !network.Addr().Is4In6()
}

func (p *Plan) validateAction(fail func(string, ...any), at string, o *Override) {
	requireOneOf(fail, at+".action", o.Action, ActionLimit, ActionAllow, ActionDeny)
	if (o.Action == ActionLimit) != (len(o.Limits) > 0) {
		fail("%s: action Limit needs limits and the other actions must have none, got action %q and %d limits", at, o.Action, len(o.Limits))
	}
	p.validateChanges(fail, at+".limits", o.Limits)
}

// validateChanges checks the changes of limits of the plan, and the limits that result.
func (p *Plan) validateChanges(fail func(string, ...any), at string, changes []LimitOverride) {
	seen := map[string]bool{}
	for i := range changes {
		changed, at := &changes[i], fmt.Sprintf("%s[%d]", at, i)
		base := slices.IndexFunc(p.Limits, func(l Limit) bool { return l.Name == changed.Name })
		if base < 0 || seen[changed.Name] {
			fail("%s.name %q must be a limit of the plan, named once", at, changed.Name)
			continue
		}
		seen[changed.Name] = true
		p.validateLimit(fail, at, changed.apply(p.Limits[base]))
	}
}
