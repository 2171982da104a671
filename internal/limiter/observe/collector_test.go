// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/testenv"
)

// newCollector returns a collector that is not started, with blocks in memory unless they are given.
func newCollector(t *testing.T, o Options) *Collector {
	t.Helper()
	if o.Blocks == nil {
		o.Blocks = memory.NewStore(memory.Options{Keys: 1000})
	}
	if o.Replica == "" {
		o.Replica = "me"
	}
	o.Logger, o.Registerer = slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	return New(o)
}

// onRedis returns collectors that share a real Redis.
func onRedis(t *testing.T, names ...string) (map[string]*Collector, *testenv.Redis) {
	t.Helper()
	server := testenv.StartRedis(t)
	all := map[string]*Collector{}
	for _, name := range names {
		client := newClient(t, server.URL)
		all[name] = newCollector(t, Options{
			Redis: client, Prefix: "weir:", Replica: name, Live: func(context.Context) ([]string, int) { return names, len(names) },
			Blocks: redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir:", Timeout: time.Minute}),
		})
	}
	return all, server
}

func newClient(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	client, err := redisclient.New(url, time.Minute)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// run starts the collector until the test ends.
func run(t *testing.T, c *Collector) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
}

func deny(c *Collector, policy string, key store.Key, n int) {
	for range n {
		c.Deny(policy, key)
	}
}

// keysOf returns the keys and counts of the only policy.
func keysOf(a *limiter.Activity) map[string]int64 {
	keys := map[string]int64{}
	for _, p := range a.Policies {
		for _, k := range p.Keys {
			keys[p.Policy+" "+strings.Join(k.Key.Parts, ",")] = k.Count
		}
	}
	return keys
}

func TestActivityOfOneProcess(t *testing.T) {
	g := NewWithT(t)
	c := newCollector(t, Options{})
	deny(c, "shop/login", store.EncodeKey("alice", "192.0.2.1"), 5)
	deny(c, "shop/other", "bob", 2)
	deny(c, "bank/login", "carol", 1)
	for scope, want := range map[limiter.Scope]map[string]int64{
		{}:                     {"shop/login alice,192.0.2.1": 5, "shop/other bob": 2, "bank/login carol": 1},
		{Namespace: "shop"}:    {"shop/login alice,192.0.2.1": 5, "shop/other bob": 2},
		{Policy: "shop/other"}: {"shop/other bob": 2},
		{Namespace: "sho"}:     {},
	} {
		a, err := c.Activity(t.Context(), scope)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(keysOf(a)).To(Equal(want))
		g.Expect([][]string{a.Reported, a.Missing}).To(Equal([][]string{{"me"}, nil}))
	}
}

// The first look contains what all live replicas observed.
func TestReplicasShareWhileSomebodyLooks(t *testing.T) {
	g := NewWithT(t)
	all, server := onRedis(t, "a", "b", "c")
	for name, c := range all {
		deny(c, "shop/login", "alice", 10)
		deny(c, "shop/login", store.Key("only-"+name), 3)
		deny(c, "bank/login", "carol", 7)
		run(t, c)
	}
	client := newClient(t, server.URL)
	g.Consistently(func() int64 { return client.DBSize(t.Context()).Val() }, "1500ms").Should(BeZero(), "nobody looks")

	began := time.Now()
	a, err := all["a"].Activity(t.Context(), limiter.Scope{Namespace: "shop"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(time.Since(began)).To(BeNumerically("<", 30*time.Second))
	g.Expect(a.Reported).To(Equal([]string{"a", "b", "c"}))
	g.Expect(a.Missing).To(BeEmpty())
	g.Expect(keysOf(a)).To(Equal(map[string]int64{
		"shop/login alice": 30, "shop/login only-a": 3, "shop/login only-b": 3, "shop/login only-c": 3,
	}))

	// A part for one Namespace does not stand for another.
	a, err = all["b"].Activity(t.Context(), limiter.Scope{Policy: "bank/login"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(a.Reported).To(Equal([]string{"a", "b", "c"}))
	g.Expect(keysOf(a)).To(Equal(map[string]int64{"bank/login carol": 21}))

	// A key that another replica lists is found by its hash.
	g.Expect(all["a"].Resolve(t.Context(), "shop/login", store.Key("only-c").Hash())).To(Equal(store.Key("only-c")))
	g.Expect(all["a"].Resolve(t.Context(), "bank/login", store.Key("only-c").Hash())).To(BeEmpty())

	g.Eventually(func() int64 { return client.DBSize(t.Context()).Val() }, "30s", "500ms").Should(BeZero(), "nobody looks any more")
}

func TestMissingReplicasAreNamed(t *testing.T) {
	g := NewWithT(t)
	all, server := onRedis(t, "a", "b")
	deny(all["a"], "shop/login", "alice", 1)
	began := time.Now()
	a, err := all["a"].Activity(t.Context(), limiter.Scope{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([][]string{a.Reported, a.Missing}).To(Equal([][]string{{"a"}, {"b"}}))
	g.Expect(time.Since(began)).To(BeNumerically("<", 30*time.Second))

	// While Redis does not answer, the own part is the answer.
	server.Stop()
	a, err = all["a"].Activity(t.Context(), limiter.Scope{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(keysOf(a)).To(Equal(map[string]int64{"shop/login alice": 1}))
	g.Expect(a.Missing).To(Equal([]string{"b"}))
}

// Of several policies, the blocks that end last are listed.
func TestBlocksOfSeveralPoliciesAreOneList(t *testing.T) {
	g := NewWithT(t)
	backend := memory.NewStore(memory.Options{Keys: 100})
	c := newCollector(t, Options{Blocks: backend})
	var policies []string
	for i := range 5 {
		id := fmt.Sprint("shop/p-", i)
		p := store.NewVariants(store.Settings{ID: id}, []store.Limit{{
			Name: "l", Algorithm: store.FixedWindow, Quota: 1, Threshold: 1, Window: time.Minute,
		}})[0]
		for j := range 3 {
			key, length := store.Key(fmt.Sprint("user-", j)), time.Duration(1+5*j+i)*time.Hour
			g.Expect(backend.Block(t.Context(), p, key, length)).To(Succeed())
			g.Expect(c.AddBlock(t.Context(), id, key, length)).To(Succeed())
		}
		policies = append(policies, id)
	}
	list, err := c.Blocks(t.Context(), policies, 3)
	g.Expect(err).NotTo(HaveOccurred())
	var got []string
	for _, b := range list.Blocks {
		got = append(got, b.Policy+" "+b.Key.Parts[0])
	}
	g.Expect(got).To(Equal([]string{"shop/p-4 user-2", "shop/p-3 user-2", "shop/p-2 user-2"}))
	g.Expect(list.Truncated).To(BeTrue())
	list, err = c.Blocks(t.Context(), policies, 15)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Blocks).To(HaveLen(15))
	g.Expect(list.Truncated).To(BeFalse())
}

// Blocks are listed within about a second of their beginning, and at the end of the process.
func TestBegunBlocksAreListed(t *testing.T) {
	g := NewWithT(t)
	all, _ := onRedis(t, "a")
	c := all["a"]
	backend, ok := c.o.Blocks.(*redisstore.Store)
	g.Expect(ok).To(BeTrue())
	p := store.NewVariants(store.Settings{ID: "shop/login"}, []store.Limit{{
		Name: "l", Algorithm: store.FixedWindow, Quota: 1, Threshold: 1, Window: time.Minute,
	}})[0]
	begin := func(key store.Key) {
		t.Helper()
		g.Expect(backend.Block(t.Context(), p, key, time.Hour)).To(Succeed())
		c.Block("shop/login", key, time.Now().Add(time.Hour))
	}
	long := store.EncodeKey(strings.Repeat("\x1b", 255), strings.Repeat("{", 255))
	begin(long)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	blocked := func() []limiter.BlockedKey {
		list, err := c.Blocks(t.Context(), []string{"shop/none", "shop/login"}, 10)
		g.Expect(err).NotTo(HaveOccurred())
		return list.Blocks
	}
	g.Eventually(blocked, "30s").Should(HaveLen(1))
	g.Expect(blocked()[0].Key.Parts).To(Equal([]string{strings.Repeat("\x1b", 255), strings.Repeat("{", 255)}))
	g.Expect(c.Resolve(t.Context(), "shop/login", long.Hash())).To(Equal(long))
	begin("last")
	stop()
	g.Expect(<-done).To(Succeed())
	g.Expect(blocked()).To(HaveLen(2))
	list, err := c.Blocks(t.Context(), []string{"shop/login"}, 1)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Truncated).To(BeTrue())
	g.Expect(list.Blocks).To(HaveLen(1))
}

func TestWhatDoesNotFitIsDroppedAndCounted(t *testing.T) {
	g := NewWithT(t)
	c := newCollector(t, Options{})
	for i := range bufferedDenials + 100 {
		c.Deny("shop/login", store.Key(fmt.Sprint("user-", i)))
	}
	g.Expect(c.drops.buffer.Load()).To(Equal(int64(100)))
	c.drain()
	for i := range maxPolicies {
		c.Deny(fmt.Sprint("shop/p-", i), "alice")
	}
	a, err := c.Activity(t.Context(), limiter.Scope{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.drops.policies.Load()).To(Equal(int64(1)))
	g.Expect(a.Dropped).To(Equal(int64(101)))
}

// A part fits into its bound, whatever is denied, and the bounds of the counts still hold.
func TestPartsAreBounded(t *testing.T) {
	g := NewWithT(t)
	c := newCollector(t, Options{})
	for i := range 400 {
		for k := range summarySize {
			key := store.Key(fmt.Sprint("user-", k, strings.Repeat("x", 100)))
			c.count(fmt.Sprint("shop/p-", i), &keyText{text: []byte(key), length: len(key), hash: uint64(k + 1)}, int64(k+1))
		}
	}
	p := c.part([]string{""})
	g.Expect(p.size()).To(BeNumerically("<=", maxPartBytes))
	g.Expect(p.Policies).To(HaveLen(400))
	kept := len(p.Policies[0].Keys)
	g.Expect(kept).To(And(BeNumerically(">", 1), BeNumerically("<", summarySize)))
	g.Expect(p.Policies[0].Unlisted).To(Equal(int64(summarySize - kept)))
	encoded, err := p.encode()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(decodePart(encoded)).To(Equal(p))
	_, err = decodePart([]byte("not gzip"))
	g.Expect(err).To(HaveOccurred())
}
