// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

func (c *compiler) overrides(at *field.Path, spec *v1alpha1.RateLimitPolicySpec) []plan.Override {
	var compiled []plan.Override
	for i := range spec.Overrides {
		o := &spec.Overrides[i]
		at := at.Index(i)
		compiled = append(compiled, plan.Override{
			Name:   o.Name,
			Keys:   o.Keys,
			Groups: o.Groups,
			CIDRs:  c.networks(at.Child("cidrs"), o.CIDRs),
			When:   c.condition(at.Child("when"), o.When),
			Action: plan.Action(cmp.Or(o.Action, v1alpha1.OverrideActionLimit)),
			Limits: c.overriddenLimits(at.Child("limits"), spec.Limits, o.Limits),
		})
	}
	return compiled
}

// checkOverrideKeys adds the problems of keys that never apply because of spaces around them.
func (c *compiler) checkOverrideKeys(at *field.Path, p *plan.Plan) {
	for i := range p.Overrides {
		for j, key := range p.Overrides[i].Keys {
			if len(p.Key) == 1 && p.Key[0].Trims(key) {
				c.add(field.Invalid(at.Index(i).Child("keys").Index(j), key, neverApplies))
			}
		}
	}
}

// networks converts CIDRs into the form of the plan: without host bits, and IPv4 for
// IPv4-mapped networks.
func (c *compiler) networks(at *field.Path, cidrs []string) []netip.Prefix {
	var compiled []netip.Prefix
	for i, cidr := range cidrs {
		network, err := netip.ParsePrefix(cidr)
		if err != nil {
			c.add(field.Invalid(at.Index(i), cidr, "must be a network such as 10.0.0.0/8 or 2001:db8::/32"))
			continue
		}
		compiled = append(compiled, unmapped(network.Masked()))
	}
	return compiled
}

// mappedBits is the length of the prefix of an IPv4-mapped IPv6 address.
const mappedBits = 96

func unmapped(network netip.Prefix) netip.Prefix {
	if !network.Addr().Is4In6() {
		return network
	}
	return netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-mappedBits)
}

func (c *compiler) overriddenLimits(at *field.Path, limits []v1alpha1.Limit, overrides []v1alpha1.LimitOverride) []plan.LimitOverride {
	var compiled []plan.LimitOverride
	for i := range overrides {
		o := &overrides[i]
		base := v1alpha1.Limit{} // of an unknown name, which Validate and CheckException reject
		if j := slices.IndexFunc(limits, func(l v1alpha1.Limit) bool { return l.Name == o.Name }); j >= 0 {
			base = limits[j]
		}
		compiled = append(compiled, c.overriddenLimit(at.Index(i), &base, o))
	}
	return compiled
}

// overriddenLimit returns the numbers that the override changes. A default burst or
// bucket follows the overridden threshold or window.
func (c *compiler) overriddenLimit(at *field.Path, base *v1alpha1.Limit, o *v1alpha1.LimitOverride) plan.LimitOverride {
	compiled := plan.LimitOverride{
		Name:         o.Name,
		Threshold:    ptr.Deref(o.Threshold, 0),
		WindowMillis: c.millis(at.Child("window"), o.Window),
		Burst:        ptr.Deref(o.Burst, 0),
		BlockMillis:  c.millis(at.Child("blockDuration"), o.BlockDuration),
	}
	if base.Algorithm == v1alpha1.AlgorithmTokenBucket && o.Threshold != nil && o.Burst == nil && base.Burst == nil {
		compiled.Burst = defaultBurst(base.Algorithm, *o.Threshold)
	}
	if o.Window != "" && base.Bucket == "" {
		compiled.BucketMicros = defaultBucketMicros(base.Algorithm, compiled.WindowMillis)
	}
	return compiled
}

// candidates returns the numbers of limits that are tried out.
func (c *compiler) candidates(at *field.Path, limits []v1alpha1.Limit) []plan.LimitOverride {
	var compiled []plan.LimitOverride
	for i := range limits {
		l := &limits[i]
		if l.Candidate == nil {
			continue
		}
		compiled = append(compiled, c.overriddenLimit(at.Index(i).Child("candidate"), l, &v1alpha1.LimitOverride{
			Name: l.Name, Threshold: l.Candidate.Threshold, Burst: l.Candidate.Burst, Window: l.Candidate.Window,
		}))
	}
	return compiled
}
