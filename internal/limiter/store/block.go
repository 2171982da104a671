// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "time"

// Block is the block of one key.
type Block struct {
	Key Key
	// By is the limit that started the block; empty if an operator did.
	By   string
	Left time.Duration
}

// MaxListedBlocks bounds the list of the blocks of each policy. Above it, the blocks that end first are not
// listed.
const MaxListedBlocks = 10_000
