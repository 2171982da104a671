// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// newClockedStore returns a store on the Redis of c, with its clock.
func newClockedStore(t *testing.T, c *cached) *Store {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: c.server.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return NewStore(Options{Client: client, Prefix: "weir-test:", Timeout: 2 * time.Second, Now: c.clock.Now})
}
