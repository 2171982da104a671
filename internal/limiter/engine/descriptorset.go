// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/weir-dev/weir/internal/limiter/plan"

// descriptors are places in a list of at most MaxDescriptors, as bits.
type descriptorSet uint64

func descriptorSetOf(descriptor int) descriptorSet {
	if descriptor == plan.AnyDescriptor {
		return ^descriptorSet(0)
	}
	return 1 << descriptor
}

func (d descriptorSet) has(descriptor int) bool { return d&descriptorSetOf(descriptor) != 0 }
