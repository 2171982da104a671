// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

// commandTimeout is long: tests of timeouts use a context.
const commandTimeout = 30 * time.Second

func newClient(t *testing.T, url string, timeout time.Duration) redis.UniversalClient {
	t.Helper()
	client, err := redisclient.New(url, timeout)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	return client
}

const incrementScript = `return redis.call("INCR", KEYS[1])`

func TestClusterServesKeysOfEveryNode(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx := t.Context()
	c := testenv.StartRedisCluster(t)
	client := newClient(t, c.URL, commandTimeout)
	script := redis.NewScript(incrementScript)
	pipeline := client.Pipeline()
	for i, node := range c.Nodes {
		key := c.KeyOn(node, "k")
		g.Expect(client.Incr(ctx, key).Val()).To(BeEquivalentTo(1))
		g.Expect(client.Do(ctx, "EVALSHA", script.Hash(), 1, key).Err()).
			To(MatchError(HavePrefix("NOSCRIPT ")))
		g.Expect(client.Do(ctx, "EVAL", incrementScript, 1, key).Val()).To(BeEquivalentTo(2))
		g.Expect(client.Do(ctx, "EVALSHA", script.Hash(), 1, key).Val()).To(BeEquivalentTo(3))
		g.Expect(script.Run(ctx, client, []string{key}).Val()).To(BeEquivalentTo(4))
		pipeline.IncrBy(ctx, key, int64(i))
		g.Expect(c.Client(node).Get(ctx, key).Val()).To(Equal("4"))
		g.Expect(c.Client(node).Info(ctx, "commandstats").Val()).NotTo(ContainSubstring("cmdstat_command:"))
	}
	g.Expect(pipeline.Exec(ctx)).To(HaveLen(len(c.Nodes)))
	g.Expect(client.Get(ctx, c.KeyOn(c.Nodes[2], "k")).Val()).To(Equal("6"))
	g.Expect(client.Del(ctx, c.KeyOn(c.Nodes[0], "k"), c.KeyOn(c.Nodes[1], "k")).Err()).
		To(MatchError(HavePrefix("CROSSSLOT ")), "keys of a command on several nodes")
}

func TestClusterNeedsOneReachableAddress(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := testenv.StartRedisCluster(t)
	client := newClient(t, "redis-cluster://"+testenv.FreeAddr(t)+"?addr="+c.Nodes[1].Addr, commandTimeout)
	for _, node := range c.Nodes {
		g.Expect(client.Incr(t.Context(), c.KeyOn(node, "k")).Err()).To(Succeed())
	}
}

func TestClusterConnectsWithUserAndPassword(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := testenv.StartRedisCluster(t)
	for _, node := range c.Nodes {
		err := c.Client(node).Do(t.Context(), "ACL", "SETUSER", "weir", "on", ">s3cret", "~*", "+@all").Err()
		g.Expect(err).NotTo(HaveOccurred())
	}
	client := newClient(t, strings.Replace(c.URL, "://", "://weir:s3cret@", 1), commandTimeout)
	for _, node := range c.Nodes {
		key := c.KeyOn(node, "k")
		g.Expect(client.Eval(t.Context(), `return redis.call("ACL", "WHOAMI")`, []string{key}).Err()).
			To(HaveOccurred(), "scripts cannot run ACL")
		g.Expect(client.Incr(t.Context(), key).Err()).To(Succeed())
		g.Expect(c.Client(node).ClientList(t.Context()).Val()).To(ContainSubstring("user=weir"))
	}
}

func TestClusterErrorOmitsWrongPassword(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := testenv.StartRedisCluster(t)
	wrong := newClient(t, strings.Replace(c.URL, "://", "://weir:guess@", 1), commandTimeout)
	err := wrong.Ping(t.Context()).Err()
	g.Expect(err).To(MatchError(ContainSubstring("WRONGPASS")))
	g.Expect(err.Error()).NotTo(ContainSubstring("guess"))
}

func TestClusterFollowsSlots(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx := t.Context()
	c := testenv.StartRedisCluster(t)
	from, to := c.Nodes[0], c.Nodes[2]
	tag := "{" + c.KeyOn(from, "tag") + "}"
	gone, stays := tag+"gone", tag+"stays"
	fresh := tag + "fresh"
	client := newClient(t, c.URL, commandTimeout)
	increment := func(key string) int64 {
		n, err := client.Incr(ctx, key).Result()
		g.Expect(err).NotTo(HaveOccurred())
		return n
	}
	g.Expect(increment(gone)).To(BeEquivalentTo(1))
	g.Expect(increment(stays)).To(BeEquivalentTo(1))

	m := c.StartMigration(c.Slot(tag), to)
	m.Move(gone)
	g.Expect(increment(gone)).To(BeEquivalentTo(2), "ASK")
	g.Expect(increment(fresh)).To(BeEquivalentTo(1), "ASK")
	g.Expect(increment(stays)).To(BeEquivalentTo(2))
	g.Expect(client.Eval(ctx, incrementScript, []string{gone}).Val()).To(BeEquivalentTo(3), "ASK")
	g.Expect(client.MGet(ctx, gone, stays).Err()).To(MatchError(HavePrefix("TRYAGAIN ")))
	piped, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, gone)
		p.Incr(ctx, stays)
		return nil
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(piped[0].(*redis.IntCmd).Val()).To(BeEquivalentTo(4))
	g.Expect(piped[1].(*redis.IntCmd).Val()).To(BeEquivalentTo(3))

	m.Finish()
	g.Expect(increment(gone)).To(BeEquivalentTo(5), "MOVED")
	g.Expect(increment(stays)).To(BeEquivalentTo(4))
	g.Expect(c.Client(to).Get(ctx, fresh).Val()).To(Equal("1"))
}

func TestClusterWithoutOneMaster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := testenv.StartRedisCluster(t)
	client := newClient(t, c.URL, commandTimeout)
	lost := c.KeyOn(c.Nodes[0], "k")
	others := []string{c.KeyOn(c.Nodes[1], "k"), c.KeyOn(c.Nodes[2], "k")}
	const timeout = 200 * time.Millisecond
	// increment bounds the call, and checks that the bound holds.
	increment := func(key string) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		began := time.Now()
		err := client.Incr(ctx, key).Err()
		g.Expect(time.Since(began)).To(BeNumerically("<", commandTimeout))
		return err
	}
	for _, key := range append(others, lost) {
		g.Eventually(increment).WithArguments(key).Should(Succeed())
	}

	c.Nodes[0].Stop()
	g.Expect(increment(lost)).To(MatchError(isNoReply, "no reply"))
	for _, key := range others {
		g.Eventually(func() error { return increment(key) }).WithTimeout(30*time.Second).Should(
			MatchError(HavePrefix("CLUSTERDOWN ")), "served until the other nodes notice the failure, then rejected at once")
	}

	c.Nodes[0].Start()
	for _, key := range append(others, lost) {
		g.Eventually(func() error { return increment(key) }).WithTimeout(30 * time.Second).Should(Succeed())
	}
}

func isNoReply(err error) bool {
	_, isReply := errors.AsType[redis.Error](err)
	return err != nil && !isReply
}

// A lost node does not redirect to the node that took over its slots: the client must
// reload the slot map itself.
func TestClusterFindsNewOwner(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx := t.Context()
	c := testenv.StartRedisCluster(t)
	client := newClient(t, c.URL, commandTimeout)
	key := c.KeyOn(c.Nodes[0], "k")
	g.Expect(client.Incr(ctx, key).Val()).To(BeEquivalentTo(1))

	id := c.Client(c.Nodes[0]).Do(ctx, "CLUSTER", "MYID").Val()
	c.Nodes[0].Stop()
	for _, node := range c.Nodes[1:] {
		g.Expect(c.Client(node).Do(ctx, "CLUSTER", "FORGET", id).Err()).To(Succeed())
	}
	g.Expect(c.Client(c.Nodes[1]).Do(ctx, "CLUSTER", "ADDSLOTSRANGE", 0, 5460).Err()).To(Succeed())
	g.Eventually(func() error { return client.Incr(ctx, key).Err() }).WithTimeout(30 * time.Second).
		Should(Succeed())
	g.Expect(c.Client(c.Nodes[1]).Get(ctx, key).Val()).To(Equal("1"), "on the new owner")
}

func TestClusterConnectsOnceRedisStarts(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := testenv.StartRedisCluster(t)
	key := c.KeyOn(c.Nodes[0], "k")
	for _, node := range c.Nodes {
		node.Stop()
	}
	client := newClient(t, c.URL, commandTimeout)
	g.Expect(client.Incr(t.Context(), key).Err()).To(MatchError(syscall.ECONNREFUSED))
	for _, node := range c.Nodes {
		node.Start()
	}
	g.Eventually(func() error { return client.Incr(t.Context(), key).Err() }).WithTimeout(30 * time.Second).
		Should(Succeed())
}
