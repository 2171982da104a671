// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// MaxPatternHeap is the most that one compiled pattern of an expression takes of the heap, in bytes.
const MaxPatternHeap = 24 << 10
