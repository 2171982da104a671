// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/test/clock"
	"github.com/weir-dev/weir/test/testenv"
)

func connect(t *testing.T, server *testenv.Redis) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(server.URL)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	options.MaxRetries = -1
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestRedisServersAreSeparate(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	first, second := testenv.StartRedis(t), testenv.StartRedis(t)
	g.Expect(first.Addr).NotTo(Equal(second.Addr))
	g.Expect(first.Pid()).NotTo(Equal(second.Pid()))

	g.Expect(connect(t, first).Set(t.Context(), "k", "v", 0).Err()).To(Succeed())
	g.Expect(connect(t, second).Get(t.Context(), "k").Err()).To(MatchError(redis.Nil))
}

func TestRedisReportsItsKind(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	g.Expect(connect(t, testenv.StartRedis(t)).Info(t.Context(), "server").Val()).NotTo(ContainSubstring("valkey"))
}

func TestRedisTakesArguments(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := testenv.StartRedis(t, "--requirepass", "secret")
	g.Expect(connect(t, server).Ping(t.Context()).Err()).To(MatchError(ContainSubstring("NOAUTH")))
}

func TestRedisStopAndStart(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	client := connect(t, server)
	g.Expect(client.Set(t.Context(), "k", "v", 0).Err()).To(Succeed())
	addr := server.Addr

	server.Stop()
	g.Expect(server.Pid()).To(BeZero())
	g.Expect(client.Ping(t.Context()).Err()).To(HaveOccurred())

	server.Start()
	g.Expect(server.Addr).To(Equal(addr))
	g.Expect(connect(t, server).Get(t.Context(), "k").Err()).To(MatchError(redis.Nil), "nothing is kept")
}

func TestRedisPauseAndResume(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	client := connect(t, server)

	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	g.Expect(client.Ping(ctx).Err()).To(MatchError(os.ErrDeadlineExceeded))

	server.Resume()
	g.Expect(client.Ping(t.Context()).Err()).To(Succeed())
}

// The servers with the preloaded clock. The build tag valkey adds Valkey.
var withClock = map[string]func(testing.TB, ...string) (*testenv.Redis, *clock.Clock){"redis": testenv.StartRedisWithClock}

func TestServerFollowsItsClock(t *testing.T) {
	t.Parallel()
	for name, start := range withClock {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server, clock := start(t)
			client := connect(t, server)

			now := func() int64 {
				at, err := client.Time(t.Context()).Result()
				g.Expect(err).NotTo(HaveOccurred())
				return at.UnixMicro()
			}
			alive := func() bool {
				n, err := client.Exists(t.Context(), "k").Result()
				g.Expect(err).NotTo(HaveOccurred())
				return n == 1
			}

			const second = int64(1_800_000_000) * 1e6
			clock.SetMicros(second + 123_456)
			g.Expect(now()).To(Equal(second + 123_456))
			g.Expect(client.Set(t.Context(), "k", "v", 100*time.Millisecond).Err()).To(Succeed())
			g.Expect(client.PTTL(t.Context(), "k").Val()).To(Equal(100 * time.Millisecond))

			clock.SetMicros(second + 223_999)
			g.Expect(now()).To(Equal(second + 223_999))
			g.Expect(alive()).To(BeTrue(), "a key set at .123 with 100 ms is alive through .223")

			g.Expect(clock.Advance(time.Microsecond)).To(Equal(time.UnixMicro(second + 224_000)))
			g.Expect(clock.Now()).To(Equal(time.UnixMicro(second + 224_000)))
			g.Expect(alive()).To(BeFalse(), "it is gone from .224 on")
		})
	}
}

func TestServerClockInScripts(t *testing.T) {
	t.Parallel()
	const script = `
		local t = redis.call("TIME")
		redis.call("SET", KEYS[1], "v", "PX", 10)
		return {t[1] * 1000000 + t[2], redis.call("PTTL", KEYS[1])}`
	for name, start := range withClock {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server, clock := start(t)
			client := connect(t, server)
			for range 3 {
				at := clock.Advance(1_234_567 * time.Microsecond)
				g.Expect(client.Exists(t.Context(), "k").Val()).To(BeZero())
				g.Expect(client.Eval(t.Context(), script, []string{"k"}).Int64Slice()).
					To(Equal([]int64{at.UnixMicro(), 10}))
			}
		})
	}
}

func TestServerClockRunsForRealAtZero(t *testing.T) {
	t.Parallel()
	for name, start := range withClock {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			server, clock := start(t)
			clock.SetMicros(0)
			at, err := connect(t, server).Time(t.Context()).Result()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(at).To(BeTemporally("~", time.Now(), 30*time.Second))
		})
	}
}
