// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// variant holds the limits of a policy with the numbers of one override, or with the
// policy's own.
type variant struct {
	override      string // name of the override; empty for the policy's own numbers
	limits        []plan.Limit
	quotas        []int64 // of limits, in the same order
	smallestQuota int64
	script        *script.Policy
}

// newVariant returns the variant without its script, which depends on all variants of
// the policy.
func newVariant(p *plan.Plan, override string, limits []plan.Limit) *variant {
	v := &variant{override: override, limits: limits, quotas: make([]int64, len(limits)), smallestQuota: plan.MaxThreshold}
	for i, l := range limits {
		v.quotas[i] = p.Quota(l)
		v.smallestQuota = min(v.smallestQuota, v.quotas[i])
	}
	return v
}

func (v *variant) scriptLimits() []script.Limit {
	limits := make([]script.Limit, len(v.limits))
	for i, l := range v.limits {
		limits[i] = script.Limit{
			Name:        l.Name,
			Algorithm:   script.AlgorithmNamed(string(l.Algorithm)),
			Quota:       v.quotas[i],
			Threshold:   l.Threshold,
			HardQuota:   l.HardQuota(),
			Window:      l.Window(),
			Bucket:      l.Bucket(),
			Block:       l.Block(),
			StateSuffix: l.StateSuffix,
		}
	}
	return limits
}
