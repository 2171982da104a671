// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keys has the commands about keys: their state, and which of them are blocked or denied.
//
// Read the files in this order:
//
//	state.go     state, block, unblock and reset, on one key or, by
//	selected.go  one part, on listed keys
//	who.go       who
//	lists.go     blocks, and what lists share
//	top.go       top
package keys
