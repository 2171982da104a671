// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Memory is the state of the memory of Redis; of a cluster, of all masters.
type Memory struct {
	// Evictions are the values of maxmemory-policy, sorted.
	Evictions []string
	// Use is the largest share of maxmemory in use. It is 0 without a maxmemory, and with a policy
	// that evicts keys, where the memory is always full.
	Use float64
}

// AskMemory asks Redis for the state of its memory. Errors come from the client.
func AskMemory(ctx context.Context, client redis.UniversalClient) (m Memory, err error) {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return m, m.add(client.InfoMap(ctx, "memory"))
	}
	var mu sync.Mutex
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		info := master.InfoMap(ctx, "memory")
		mu.Lock()
		defer mu.Unlock()
		return m.add(info)
	})
	return m, err
}

// MemoryUse returns a function that asks the client for Memory.Use.
func MemoryUse(client redis.UniversalClient) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		memory, err := AskMemory(ctx, client)
		return memory.Use, err
	}
}

// add adds the state of one server.
func (m *Memory) add(info *redis.InfoCmd) error {
	if err := info.Err(); err != nil {
		return err
	}
	fact := func(name string) string { return info.Item("Memory", name) }
	used, err := strconv.ParseFloat(fact("used_memory"), 64)
	if err != nil {
		return fmt.Errorf("INFO memory without used_memory: %w", err)
	}
	eviction := fact("maxmemory_policy")
	if eviction != "" && !slices.Contains(m.Evictions, eviction) {
		m.Evictions = append(m.Evictions, eviction)
		slices.Sort(m.Evictions)
	}
	if limit, _ := strconv.ParseFloat(fact("maxmemory"), 64); limit > 0 && eviction == "noeviction" {
		m.Use = max(m.Use, used/limit)
	}
	return nil
}
