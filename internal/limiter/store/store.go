// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"
)

// Store holds the counters and blocks of keys. redisstore.Store holds them in Redis, memory.Store in
// this process; denialcache.Cache and slicecache.Cache stand before redisstore.Store.
type Store interface {
	// Evaluate decides all entries of the call together: either all admitted entries spend,
	// or none. It is one atomic step, except in Redis for many limits and for keys on several nodes of a
	// cluster. It returns in time for the caller's deadline. Errors are *Error; after one the call must
	// not be changed.
	Evaluate(ctx context.Context, call *Call) (*Reply, error)
	// Reset and Unblock delete the state or the block of a key and report whether there was
	// any. Block denies the key for length, in place of an existing block.
	Reset(ctx context.Context, policy *Policy, key Key) (bool, error)
	Block(ctx context.Context, policy *Policy, key Key, length time.Duration) error
	Unblock(ctx context.Context, policy *Policy, key Key) (bool, error)
}
