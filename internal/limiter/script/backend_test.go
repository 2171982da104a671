// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/testenv"
)

const testPrefix = "weir-test:"

// backend is something that decides calls, with a clock the test sets.
type backend struct {
	name   string
	clock  clock
	decide func(context.Context, *Call) (*Reply, error)
	clear  func(testing.TB)
}

type clock interface {
	Now() time.Time
	Set(t time.Time)
}

func (b *backend) evaluate(tb testing.TB, call *Call) *Reply {
	tb.Helper()
	reply, err := b.decide(tb.Context(), call)
	if err != nil {
		tb.Fatal(err)
	}
	return reply
}

// stillClock is a clock for the model.
type stillClock struct{ now time.Time }

func (c *stillClock) Now() time.Time  { return c.now }
func (c *stillClock) Set(t time.Time) { c.now = t }

func newModelBackend() *backend {
	clock := &stillClock{now: time.UnixMicro(1_900_000_000_123_456)}
	m := &Model{}
	return &backend{
		name: "model", clock: clock, decide: evaluateModel(m, clock.Now),
		clear: func(testing.TB) { clear(m.states) },
	}
}

func newRedisBackend(tb testing.TB) (*backend, *redis.Client) {
	tb.Helper()
	server, clock := testenv.StartRedisWithClock(tb)
	client := newClient(tb, server.Addr)
	store := NewStore(client, testPrefix)
	return &backend{
		name: "redis", clock: clock,
		decide: func(ctx context.Context, call *Call) (*Reply, error) {
			// Redis drops expired keys when it comes across them. The model drops
			// them at once, which a clock that runs back afterwards would tell: a
			// scan comes across all.
			if err := client.Scan(ctx, 0, "*", 1000).Err(); err != nil {
				return nil, err
			}
			return store.Evaluate(ctx, call)
		},
		clear: func(tb testing.TB) {
			tb.Helper()
			if err := client.FlushAll(tb.Context()).Err(); err != nil {
				tb.Fatal(err)
			}
		},
	}, client
}

func newBackends(tb testing.TB) []*backend {
	tb.Helper()
	redis, _ := newRedisBackend(tb)
	return []*backend{newModelBackend(), redis}
}

func newClient(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}
