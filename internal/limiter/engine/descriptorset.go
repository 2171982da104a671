// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/weir-dev/weir/internal/limiter/plan"

// descriptors are places in a list of at most MaxDescriptors, as bits.
type descriptors uint64

func only(descriptor int) descriptors {
	if descriptor == plan.AnyDescriptor {
		return ^descriptors(0)
	}
	return 1 << descriptor
}

func (d descriptors) have(descriptor int) bool { return d&only(descriptor) != 0 }
