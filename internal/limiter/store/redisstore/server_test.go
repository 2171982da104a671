// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/clock"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

const testPrefix = "weir-test:"

// newStore returns a store with the prefix of the tests, and more time than Redis needs on a
// machine that is busy.
func newStore(client redis.UniversalClient) *Store {
	return NewStore(Options{Client: client, Prefix: testPrefix, Timeout: time.Minute, MaxSends: 14}) // for half a minute
}

// algorithms are all but Concurrency.
var allAlgorithms, algorithms = store.Algorithms(), storetest.Spending()

// server is a server program that runs the scripts.
type server struct {
	name      string
	start     func(testing.TB, ...string) *testenv.Redis
	withClock func(testing.TB, ...string) (*testenv.Redis, *clock.Clock)
}

// servers are the server programs that the tests run on. The build tag valkey adds Valkey.
var servers = []server{{"redis", testenv.StartRedis, testenv.StartRedisWithClock}}

// newSubject returns a store with a server whose clock the test sets.
func newSubject(tb testing.TB, on server) (*storetest.Subject, *redis.Client) {
	tb.Helper()
	process, clock := on.withClock(tb)
	client := newClient(tb, process.Addr)
	backend := newStore(client)
	backend.now = clock.Now
	return &storetest.Subject{
		Store: backend, Clock: clock, IsRemote: true, IsRounded: true,
		Clear: func(tb testing.TB) {
			tb.Helper()
			if err := client.FlushAll(tb.Context()).Err(); err != nil {
				tb.Fatal(err)
			}
		},
		DropExpired: func(tb testing.TB) {
			tb.Helper()
			if err := client.Scan(tb.Context(), 0, "*", 1000).Err(); err != nil {
				tb.Fatal(err)
			}
			if err := client.Eval(tb.Context(), dropEndedBlocks, nil).Err(); err != nil {
				tb.Fatal(err)
			}
		},
		Size: func(tb testing.TB) int {
			tb.Helper()
			keys, err := client.Keys(tb.Context(), "*").Result()
			if err != nil {
				tb.Fatal(err)
			}
			return len(keys)
		},
	}, client
}

// dropEndedBlocks leaves of an ended block the mark, see block.lua.
const dropEndedBlocks = `
for _, key in ipairs(redis.call('KEYS', '*:block')) do
  local value = redis.call('MGET', key)[1]
  local longer = value and string.match(value, '^%+(%d+):')
  local _ = longer and redis.call('PTTL', key) < tonumber(longer) and redis.call('SET', key, '+', 'KEEPTTL')
end
return 1`

// forEachServer runs the test with a subject on each server program.
func forEachServer(t *testing.T, test func(*testing.T, *storetest.Subject)) {
	t.Helper()
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			subject, _ := newSubject(t, on)
			test(t, subject)
		})
	}
}

func newClient(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}
