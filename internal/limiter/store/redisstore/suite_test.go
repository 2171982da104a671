// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/denialcache"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

func TestPromises(t *testing.T) { forEachServer(t, storetest.TestPromises) }

func TestScenarios(t *testing.T) { forEachServer(t, storetest.TestScenarios) }

func TestAgreesWithModel(t *testing.T) { forEachServer(t, storetest.TestAgreesWithModel) }

func TestEdgeValues(t *testing.T) { forEachServer(t, storetest.TestEdgeValues) }

func FuzzCall(f *testing.F) {
	subject, _ := newSubject(f, servers[0])
	storetest.FuzzCall(f, subject)
}

// newReplicas returns replicas on the server, each with its own connections and its own cache of denials.
func newReplicas(server *testenv.Redis) *storetest.Replicas {
	return &storetest.Replicas{AreRemote: true, Open: func(tb testing.TB, n int) []storetest.Evaluator {
		tb.Helper()
		replicas := make([]storetest.Evaluator, n)
		for i := range replicas {
			replicas[i] = denialcache.New(newStore(newClient(tb, server.Addr)), time.Now)
		}
		return replicas
	}}
}

func TestConcurrency(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) { storetest.TestConcurrency(t, newReplicas(on.start(t))) })
	}
}

func TestClusterUnknownKeysInAChain(t *testing.T) {
	backend, keys := clusterStore(t, testenv.StartRedisCluster(t))
	storetest.TestUnknownKeysInAChain(t, backend, [3]store.Key(keys))
}

func TestBlockLists(t *testing.T) {
	t.Run("Redis", func(t *testing.T) {
		storetest.TestBlockLists(t, func(tb testing.TB) (storetest.BlockStore, func(time.Duration)) {
			tb.Helper()
			server, clock := testenv.StartRedisWithClock(tb)
			return newStore(newClient(tb, server.Addr)), func(d time.Duration) { clock.Advance(d) }
		})
	})
	t.Run("Cluster", func(t *testing.T) {
		storetest.TestBlockLists(t, func(tb testing.TB) (storetest.BlockStore, func(time.Duration)) {
			tb.Helper()
			client, err := redisclient.New(testenv.StartRedisCluster(tb).URL, time.Minute)
			NewWithT(tb).Expect(err).NotTo(HaveOccurred())
			tb.Cleanup(func() { _ = client.Close() })
			return newStore(client), nil
		})
	})
}

// A shorter block does not move the end of a longer one in the list, since the later of two messages
// may arrive first. Ended blocks are removed.
func TestBlockListsKeepTheLatestEnd(t *testing.T) {
	g := NewWithT(t)
	server, clock := testenv.StartRedisWithClock(t)
	client := newClient(t, server.Addr)
	s := newStore(client)
	add := func(key string, left time.Duration) {
		t.Helper()
		g.Expect(s.AddBlocks(t.Context(), "shop/login", []store.Block{{Key: store.Key(key), Left: left}})).To(Succeed())
	}
	add("alice", time.Hour)
	add("alice", time.Minute)
	add("bob", time.Minute)
	clock.Advance(2 * time.Minute)
	add("carol", time.Minute)
	const list = testPrefix + layoutVersion + "{shop/login}:blocked"
	g.Expect(client.ZRange(t.Context(), list, 0, -1).Result()).To(Equal([]string{"carol", "alice"}))
	g.Expect(client.PTTL(t.Context(), list).Val()).To(BeNumerically("~", 58*time.Minute, 2*time.Second))
}
