// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/test/testenv"
)

// senders send an INCR in the different ways of the client.
var senders = map[string]func(ctx context.Context, client redis.UniversalClient, key string) error{
	"Do": func(ctx context.Context, client redis.UniversalClient, key string) error {
		return client.Do(ctx, "INCR", key).Err()
	},
	"Pipeline": func(ctx context.Context, client redis.UniversalClient, key string) error {
		_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, key).Err() })
		return err
	},
	"TxPipeline": func(ctx context.Context, client redis.UniversalClient, key string) error {
		_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, key).Err() })
		return err
	},
}

func TestClusterNeverSendsTwice(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const timeout = time.Second
	c := testenv.StartRedisCluster(t)
	proxy := startProxy(t, c.Nodes[0].Addr)
	client := newClient(t, c.URL, timeout)
	proxy.intercept(client)
	stored := func(key string) string { return c.Client(c.Nodes[0]).Get(t.Context(), key).Val() }
	// Connect first, so that only the command times out.
	connected := func(key string) error { return client.Exists(t.Context(), key).Err() }
	sent := 0
	for name, send := range senders {
		key := c.KeyOn(c.Nodes[0], name)
		// once sends, and checks that the command was sent and run once.
		once := func(ctx context.Context, value string) error {
			g.Eventually(connected).WithArguments(key).Should(Succeed(), name)
			err := send(ctx, client, key)
			sent++
			g.Expect(proxy.increments()).To(Equal(sent), name)
			g.Eventually(stored).WithArguments(key).Should(Equal(value), name)
			return err
		}
		g.Expect(once(t.Context(), "1")).To(Succeed())

		proxy.lose(cut)
		g.Expect(once(t.Context(), "2")).To(MatchError(isNoReply, "no reply"))

		proxy.lose(held)
		g.Expect(once(t.Context(), "3")).To(MatchError(isTimeout, "a timeout"))

		proxy.lose(held)
		ctx, cancel := context.WithTimeout(t.Context(), timeout/2) // busy: the call waits for its end
		g.Expect(once(ctx, "4")).To(MatchError(isTimeout, "a timeout"))
		cancel()
	}
}

// isTimeout recognizes a timeout as the callers do.
func isTimeout(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout()
}

// The library would send a whole pipeline again if its first command can be retried.
func TestClusterNeverSendsPipelineTwice(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx := t.Context()
	c := testenv.StartRedisCluster(t)
	tag := "{" + c.KeyOn(c.Nodes[0], "tag") + "}"
	client := newClient(t, c.URL, commandTimeout)
	g.Expect(client.MSet(ctx, tag+"gone", "1", tag+"stays", "1").Err()).To(Succeed())
	c.StartMigration(c.Slot(tag), c.Nodes[1]).Move(tag + "gone")

	var split *redis.SliceCmd
	var increment *redis.IntCmd
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		split = p.MGet(ctx, tag+"gone", tag+"stays")
		increment = p.Incr(ctx, tag+"stays")
		return nil
	})
	g.Expect(err).To(MatchError(HavePrefix("TRYAGAIN ")))
	g.Expect(split.Err()).To(MatchError(HavePrefix("TRYAGAIN ")))
	g.Expect(increment.Val()).To(BeEquivalentTo(2))
	g.Expect(c.Client(c.Nodes[0]).Get(ctx, tag+"stays").Val()).To(Equal("2"))
}
