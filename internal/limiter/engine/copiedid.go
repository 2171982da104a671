// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// hasCopiedID reports whether a reservation with the ID of a check of Envoy was open: clients can copy
// IDs. A reserve with such an ID repeats the open one.
func (op *operation) hasCopiedID() bool {
	return op.action == limiter.HitsReserve && op.reply != nil && op.reply.Hold == store.HoldFound
}

// rejectCopiedIDs gives the operations with a copied ID the verdict of a denial, and reports whether there are
// any.
func (ev *evaluation) rejectCopiedIDs() (rejected bool) {
	for _, op := range ev.all() {
		if op.hasCopiedID() {
			op.reply.Verdict, rejected = store.Denied, true
		}
	}
	return rejected
}

// copiedID returns the first policy with a copied ID, or nil.
func (ev *evaluation) copiedID() *policy {
	for _, op := range ev.all() {
		if op.hasCopiedID() {
			return op.policy
		}
	}
	return nil
}
