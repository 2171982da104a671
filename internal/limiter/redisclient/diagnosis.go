// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Diagnosis is the state of Redis, for operators.
type Diagnosis struct {
	// Servers are the kinds of servers, such as "redis 7.0.15"; of a cluster the kinds of all masters.
	Servers []string
	// OldestTested is the oldest tested version of a server that is older; empty if none is.
	OldestTested string
	// Evictions and MemoryUse are as in Memory; empty if they are unknown.
	Evictions []string
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
	memory, err := AskMemory(ctx, client)
	d.try("INFO memory", err)
	d.Evictions, d.MemoryUse = append(d.Evictions, memory.Evictions...), memory.Use
	d.try("a script that writes", probeScript.Eval(ctx, client, []string{prefix + "{diagnosis}"}).Err())
	d.try("PUBLISH", client.Publish(ctx, prefix+"diagnosis", "").Err())
	return d
}

func (d *Diagnosis) try(what string, err error) {
	if err != nil {
		d.Problems = append(d.Problems, fmt.Sprintf("%s: %v", what, err))
	}
}
