// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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
	text, err := node.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	facts := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[name] = value
		}
	}
	used, err := strconv.ParseFloat(facts["used_memory"], 64)
	if err != nil {
		return 0, fmt.Errorf("INFO memory without used_memory: %w", err)
	}
	limit, _ := strconv.ParseFloat(facts["maxmemory"], 64)
	if limit == 0 || facts["maxmemory_policy"] != "noeviction" {
		return 0, nil
	}
	return used / limit, nil
}
