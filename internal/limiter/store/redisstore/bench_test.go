// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/testenv"
)

// BenchmarkBatch measures one script call for 1 and for 16 checks, of 10,000 keys and of one: the
// CPU time of Redis for a check, and the run time of the script in it.
func BenchmarkBatch(b *testing.B) {
	server := testenv.StartRedis(b)
	client := newClient(b, server.Addr)
	backend := newStore(client)
	for _, verdict := range []store.Verdict{store.Admitted, store.Denied} {
		for _, algorithm := range algorithms {
			for _, limits := range []int{1, 4} {
				for _, size := range []struct{ checks, keys int }{{1, 10_000}, {16, 10_000}, {16, 1}} {
					b.Run(fmt.Sprintf("%s/%s/limits=%d/checks=%d/keys=%d", verdict, algorithm, limits, size.checks, size.keys), func(b *testing.B) {
						benchmarkBatch(b, backend, client, benchPolicy(algorithm, limits, verdict), size.checks, size.keys)
					})
				}
			}
		}
	}
}

func benchPolicy(algorithm store.Algorithm, limits int, verdict store.Verdict) *store.Policy {
	most := int64(1_000_000)
	if verdict == store.Denied {
		most = 1
	}
	list := make([]store.Limit, limits)
	for i := range list {
		list[i] = store.Limit{
			Name: fmt.Sprintf("l%d", i), Algorithm: algorithm, Quota: most, Threshold: most, HardQuota: most,
			Window: time.Second * time.Duration(1+i), Bucket: 10 * time.Millisecond,
		}
		if verdict == store.Denied {
			list[i].Window = time.Hour
		}
	}
	return store.NewPolicy(fmt.Sprintf("bench/%s%d%s", algorithm, limits, verdict), false, false, list)
}

func benchmarkBatch(b *testing.B, backend *Store, client *redis.Client, policy *store.Policy, checks, keys int) {
	b.Helper()
	batch := make([]*pending, checks)
	next := 0
	send := func(b *testing.B) {
		b.Helper()
		for i := range batch {
			key := store.Key(fmt.Sprintf("user-%d", next%keys))
			next++
			batch[i] = pendingOf(b, &store.Call{Entries: []store.Entry{{Policy: policy, Key: key, Cost: 1}}})
		}
		if outcomes := backend.send(b.Context(), batch); outcomes[0].err != nil {
			b.Fatal(outcomes[0].err)
		}
	}
	for next < keys {
		send(b)
	}
	if err := client.ConfigResetStat(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	before := redisCPU(b, client)
	b.ReportAllocs()
	for b.Loop() {
		send(b)
	}
	perCheck := 1 / float64(b.N*checks)
	b.ReportMetric(scriptTime(b, client)/float64(checks), "script-us/check")
	b.ReportMetric(float64((redisCPU(b, client)-before).Nanoseconds())/1e3*perCheck, "redis-us/check")
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
