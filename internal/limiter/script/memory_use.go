// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// MemoryUse returns the largest share of maxmemory that a Redis node uses. It is 0 without a
// maxmemory, and with a policy that evicts keys, where the memory is always full. Errors are those
// of the client.
func (s *Store) MemoryUse(ctx context.Context) (float64, error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return memoryUse(ctx, s.client)
	}
	var mu sync.Mutex
	var largest float64
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		use, err := memoryUse(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		largest = max(largest, use)
		return err
	})
	return largest, err
}

func memoryUse(ctx context.Context, node redis.Cmdable) (float64, error) {
	info := node.InfoMap(ctx, "memory")
	if err := info.Err(); err != nil {
		return 0, err
	}
	fact := func(name string) string { return info.Item("Memory", name) }
	used, err := strconv.ParseFloat(fact("used_memory"), 64)
	if err != nil {
		return 0, fmt.Errorf("INFO memory without used_memory: %w", err)
	}
	limit, _ := strconv.ParseFloat(fact("maxmemory"), 64)
	if limit == 0 || fact("maxmemory_policy") != "noeviction" {
		return 0, nil
	}
	return used / limit, nil
}
