// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/testenv"
)

// Decisions for 10,000 keys from parallel callers, with the CPU time of Redis for each.
func BenchmarkEvaluate(b *testing.B) {
	server := testenv.StartRedis(b)
	client := newClient(b, server.Addr)
	store := NewStore(client, testPrefix)
	for _, algorithm := range algorithms {
		b.Run(string(algorithm), func(b *testing.B) {
			policy := NewPolicy("bench/"+string(algorithm), false, false, []Limit{
				{Name: "l", Algorithm: algorithm, Quota: 100, Threshold: 100, Window: time.Second},
			})
			var calls atomic.Int64
			b.ReportAllocs()
			if err := client.ConfigResetStat(b.Context()).Err(); err != nil {
				b.Fatal(err)
			}
			before := redisCPU(b, client)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					key := Key(fmt.Sprintf("user-%d", calls.Add(1)%10_000))
					if _, err := store.Evaluate(b.Context(), &Call{Entries: []Entry{{Policy: policy, Key: key, Cost: 1}}}); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.ReportMetric(scriptTime(b, client), "script-us/op")
			b.ReportMetric(float64((redisCPU(b, client)-before).Nanoseconds())/1e3/float64(b.N), "redis-us/op")
		})
	}
}

var cpuLine = regexp.MustCompile(`used_cpu_(?:user|sys)_main_thread:([0-9.]+)`)

// redisCPU returns the CPU time of the server's main thread.
func redisCPU(b *testing.B, client *redis.Client) time.Duration {
	b.Helper()
	info, err := client.Info(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	var seconds float64
	for _, line := range cpuLine.FindAllStringSubmatch(info, -1) {
		n, err := strconv.ParseFloat(line[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		seconds += n
	}
	return time.Duration(seconds * float64(time.Second))
}

var scriptLine = regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([0-9.]+)`)

// scriptTime returns the average run time of a script in microseconds, as Redis reports
// it: without reading the command and writing the reply.
func scriptTime(b *testing.B, client *redis.Client) float64 {
	b.Helper()
	info, err := client.Info(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	line := scriptLine.FindStringSubmatch(info)
	if line == nil {
		b.Fatal("no script ran")
	}
	micros, err := strconv.ParseFloat(line[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return micros
}
