// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flood protects the memory of the store from floods of new keys. It counts the keys that
// each policy begins and watches the memory of the store. While a policy has begun too many keys,
// or the store is nearly full, only known keys keep their own budgets; the others share one.
//
// Reading order: budget.go (the keys that one policy may begin), memory.go (the memory of the
// store).
package flood
