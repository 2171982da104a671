// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
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

// Evicts reports whether a server removes keys when its memory is full, and with them limits and blocks.
func (m *Memory) Evicts() bool {
	return slices.ContainsFunc(m.Evictions, func(policy string) bool { return policy != noEviction })
}

// noEviction is the value of maxmemory-policy with which a full Redis rejects writes.
const noEviction = "noeviction"

// MemoryUse returns a function that asks the client for Memory.Use. When the answer to Memory.Evicts changes, the
// function logs it; registerer, unless nil, gets it as a metric. The function is for one goroutine.
func MemoryUse(client redis.UniversalClient, logger *slog.Logger, registerer prometheus.Registerer) func(ctx context.Context) (float64, error) {
	// A vector has no value before the first answer.
	evicts := promauto.With(registerer).NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_redis_evicts_keys",
		Help: "1 if maxmemory-policy lets a Redis server remove keys when its memory is full, else 0.",
	}, nil)
	evicted := false
	return func(ctx context.Context) (float64, error) {
		memory, err := AskMemory(ctx, client)
		if err != nil {
			return 0, err
		}
		was, value := evicted, 0.0
		if evicted = memory.Evicts(); evicted {
			value = 1
		}
		evicts.WithLabelValues().Set(value)
		switch {
		case evicted && !was:
			logger.Error("Redis removes counters and blocks when its memory is full; set maxmemory-policy noeviction", "policies", memory.Evictions)
		case !evicted && was:
			logger.Info("Redis keeps counters and blocks when its memory is full", "policies", memory.Evictions)
		}
		return memory.Use, nil
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
	if limit, _ := strconv.ParseFloat(fact("maxmemory"), 64); limit > 0 && eviction == noEviction {
		m.Use = max(m.Use, used/limit)
	}
	return nil
}
