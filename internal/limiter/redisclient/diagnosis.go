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

// Diagnosis is the state of Redis, for operators.
type Diagnosis struct {
	// Servers are the kinds of servers, such as "redis 7.0.15"; of a cluster those of all masters.
	Servers []string
	// OldestTested is the oldest tested version of a server that is older; empty if none is.
	OldestTested string
	// Evictions are the values of maxmemory-policy; empty if they are unknown.
	Evictions []string
	// MemoryUse is the largest share of maxmemory that a master uses; 0 without a maxmemory.
	MemoryUse float64
	// Problems are the errors of commands that Weir needs.
	Problems []string
}

// probeScript writes a key and reads it, as the scripts of decisions do. The key expires at once.
var probeScript = redis.NewScript(`redis.call('SET', KEYS[1], '1', 'PX', 1) return redis.call('PTTL', KEYS[1])`)

// Diagnose asks Redis for its state, and tries what decisions need: a script that writes, and a
// message. Keys and channels have the prefix.
func Diagnose(ctx context.Context, client redis.UniversalClient, prefix string) *Diagnosis {
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	d := &Diagnosis{Servers: []string{}, Evictions: []string{}, Problems: []string{}}
	servers, err := askServers(ctx, client)
	if err != nil {
		d.Problems = append(d.Problems, err.Error())
		return d
	}
	for _, s := range servers {
		d.Servers = append(d.Servers, s.String())
		if oldest := s.oldestTested(); oldest != "" {
			d.OldestTested = oldest
		}
	}
	d.askMemory(ctx, client)
	d.try("a script that writes", probeScript.Eval(ctx, client, []string{prefix + "{diagnosis}"}).Err())
	d.try("PUBLISH", client.Publish(ctx, prefix+"diagnosis", "").Err())
	return d
}

func (d *Diagnosis) try(what string, err error) {
	if err != nil {
		d.Problems = append(d.Problems, fmt.Sprintf("%s: %v", what, err))
	}
}

// askMemory sets what INFO reports of the memory.
func (d *Diagnosis) askMemory(ctx context.Context, client redis.UniversalClient) {
	var mu sync.Mutex
	ask := func(ctx context.Context, node redis.Cmdable) error {
		info := node.InfoMap(ctx, "memory")
		if err := info.Err(); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if policy := info.Item("Memory", "maxmemory_policy"); policy != "" && !slices.Contains(d.Evictions, policy) {
			d.Evictions = append(d.Evictions, policy)
			slices.Sort(d.Evictions)
		}
		used, _ := strconv.ParseFloat(info.Item("Memory", "used_memory"), 64)
		if limit, _ := strconv.ParseFloat(info.Item("Memory", "maxmemory"), 64); limit > 0 {
			d.MemoryUse = max(d.MemoryUse, used/limit)
		}
		return nil
	}
	var err error
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return ask(ctx, node) })
	} else {
		err = ask(ctx, client)
	}
	d.try("INFO memory", err)
}
