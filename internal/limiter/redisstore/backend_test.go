// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/quota"
	"github.com/weir-dev/weir/internal/limiter/reference"
	"github.com/weir-dev/weir/internal/testenv"
)

const testPrefix = "weir-test:"

// newStore returns a store with the prefix of the tests, and more time than Redis needs on a
// machine that is busy.
func newStore(client redis.UniversalClient) *Store {
	return NewStore(Options{Client: client, Prefix: testPrefix, Timeout: 10 * time.Second})
}

// allAlgorithms are the codes of all kinds, algorithms those that count what is spent.
var allAlgorithms, algorithms = func() (all, spending []quota.Algorithm) {
	all = quota.Algorithms()
	return all, slices.DeleteFunc(slices.Clone(all), func(a quota.Algorithm) bool { return a == quota.Concurrency })
}()

// decider is the methods of a Store, which modelDecider implements with the model.
type decider interface {
	Evaluate(ctx context.Context, call *quota.Call) (*quota.Reply, error)
	Reset(ctx context.Context, policy *quota.Policy, key quota.Key) (bool, error)
	Block(ctx context.Context, policy *quota.Policy, key quota.Key, length time.Duration) error
	Unblock(ctx context.Context, policy *quota.Policy, key quota.Key) (bool, error)
}

// backend is a Store or the model, with a clock that the test sets.
type backend struct {
	decider
	name  string
	clock clock
	clear func(testing.TB)
	// setTime sets the clock and deletes the expired keys. Redis deletes them lazily,
	// so that they would exist again after the clock is set back.
	setTime func(testing.TB, time.Time)
	// isMonotonic is true if the clock must not be set back.
	isMonotonic bool
}

type clock interface {
	Now() time.Time
	Set(t time.Time)
}

func (b *backend) evaluate(tb testing.TB, call *quota.Call) *quota.Reply {
	tb.Helper()
	reply, err := b.Evaluate(tb.Context(), call)
	if err != nil {
		tb.Fatal(err)
	}
	return reply
}

// stillClock is a clock for the model.
type stillClock struct{ now time.Time }

func (c *stillClock) Now() time.Time  { return c.now }
func (c *stillClock) Set(t time.Time) { c.now = t }

// modelDecider is the model with a clock.
type modelDecider struct {
	*reference.Model
	clock *stillClock
}

func (d modelDecider) Evaluate(_ context.Context, call *quota.Call) (*quota.Reply, error) {
	return d.Model.Evaluate(call, d.clock.Now()), nil
}

func (d modelDecider) Reset(_ context.Context, policy *quota.Policy, key quota.Key) (bool, error) {
	return d.Model.Reset(policy, key, d.clock.Now()), nil
}

func (d modelDecider) Block(_ context.Context, policy *quota.Policy, key quota.Key, length time.Duration) error {
	d.Model.Block(policy, key, length, d.clock.Now())
	return nil
}

func (d modelDecider) Unblock(_ context.Context, policy *quota.Policy, key quota.Key) (bool, error) {
	return d.Model.Unblock(policy, key, d.clock.Now()), nil
}

func newModelBackend() *backend {
	d := modelDecider{Model: &reference.Model{}, clock: &stillClock{now: time.UnixMicro(1_900_000_000_123_456)}}
	return &backend{
		name: "model", decider: d, clock: d.clock,
		clear: func(testing.TB) { d.Clear() },
		setTime: func(_ testing.TB, now time.Time) {
			d.clock.Set(now)
			d.Expire(now)
		},
	}
}

// server is a server program that runs the scripts.
type server struct {
	name      string
	start     func(testing.TB, ...string) *testenv.Redis
	withClock func(testing.TB, ...string) (*testenv.Redis, *testenv.Clock)
}

// servers are the supported server programs.
var servers = []server{
	{"redis", testenv.StartRedis, testenv.StartRedisWithClock},
	{"valkey", testenv.StartValkey, testenv.StartValkeyWithClock},
}

func newServerBackend(tb testing.TB, s server) (*backend, *redis.Client) {
	tb.Helper()
	process, clock := s.withClock(tb)
	client := newClient(tb, process.Addr)
	store := newStore(client)
	store.now = clock.Now
	return &backend{
		name: s.name, decider: store, clock: clock,
		setTime: func(tb testing.TB, now time.Time) {
			tb.Helper()
			clock.Set(now)
			if err := client.Scan(tb.Context(), 0, "*", 1000).Err(); err != nil {
				tb.Fatal(err)
			}
		},
		clear: func(tb testing.TB) {
			tb.Helper()
			if err := client.FlushAll(tb.Context()).Err(); err != nil {
				tb.Fatal(err)
			}
		},
	}, client
}

// newBackends returns the model, the store in memory and every server.
func newBackends(tb testing.TB) []*backend {
	tb.Helper()
	all := []*backend{newModelBackend(), newMemoryBackend()}
	for _, s := range servers {
		b, _ := newServerBackend(tb, s)
		all = append(all, b)
	}
	return all
}

func newClient(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}
