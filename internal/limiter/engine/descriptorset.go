// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/weir-dev/weir/internal/limiter/plan"

// descriptorSet is a set of indexes of at most limiter.MaxDescriptors descriptors, one
// bit each.
type descriptorSet uint64

// descriptorSetOf returns the set of one descriptor; plan.AllDescriptors is all of them.
func descriptorSetOf(descriptor int) descriptorSet {
	if descriptor == plan.AllDescriptors {
		return ^descriptorSet(0)
	}
	return 1 << descriptor
}

func (d descriptorSet) has(descriptor int) bool { return d&descriptorSetOf(descriptor) != 0 }
