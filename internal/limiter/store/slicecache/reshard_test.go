// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

// While the slots of hot keys move to a node that is added, and to others, two replicas with slices decide each check, and count each
// admission once.
func TestQuotaIsExactWhileSlotsMove(t *testing.T) {
	cluster := testenv.StartRedisCluster(t)
	nodes := []*testenv.Redis{cluster.AddMaster(), cluster.Nodes[2], cluster.Nodes[0]}
	keys := []store.Key{store.Key(cluster.KeyOn(cluster.Nodes[0], "a")), store.Key(cluster.KeyOn(cluster.Nodes[1], "a"))}
	open := func() store.Store {
		client, err := redisclient.New(cluster.URL, time.Minute)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return openOn(t, client)
	}
	for _, algorithm := range slicedAlgorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			g := NewWithT(t)
			policy := newPolicy(fmt.Sprint("moving-", algorithm), 500*time.Millisecond, storetest.WideLimit(algorithm))
			replicas, stops := make([]storetest.Evaluator, 2), make([]func(), 2)
			for i := range replicas {
				c := New(Options{Store: open()})
				replicas[i], stops[i] = c, start(t, c)
			}
			var next, sliced, failed atomic.Int64
			admitted := make([]atomic.Int64, len(keys))
			check := func(backend storetest.Evaluator) bool {
				i := int(next.Add(1)) % len(keys)
				reply, err := backend.Evaluate(t.Context(), storetest.SpendOne(policy, keys[i]))
				if err != nil {
					failed.Add(1)
					return false
				}
				if reply.FromSlice {
					sliced.Add(1)
				}
				if reply.Entries[0].Verdict == store.Admitted {
					admitted[i].Add(1)
				}
				return true
			}
			var moved atomic.Bool
			done := make(chan struct{})
			go func() {
				defer close(done)
				storetest.Concurrently(replicas, func() bool { return !moved.Load() }, check)
			}()
			for _, node := range nodes {
				for _, key := range keys {
					before := sliced.Load()
					g.Eventually(sliced.Load, "30s").Should(BeNumerically(">", before+1000), "slices while the slot has an owner")
					cluster.Migrate(cluster.Slot("{"+string(key)+"}"), node)
				}
			}
			moved.Store(true)
			<-done
			for _, stop := range stops {
				stop()
			}
			g.Expect(failed.Load()).To(BeZero())
			backend, uncounted, lost := open(), 0.0, 0.0
			for i, key := range keys {
				var state store.EntryReply
				// A hold that was taken late, while its slot moved, ends after its replica has given it up.
				g.Eventually(func() int64 {
					reply, err := backend.Evaluate(t.Context(), storetest.PeekOf(storetest.SpendOne(policy, key)))
					g.Expect(err).NotTo(HaveOccurred())
					state = reply.Entries[0]
					return state.Held
				}, "30s").Should(BeZero())
				used := state.Limits[0].Used
				g.Expect(used).To(BeNumerically(">=", admitted[i].Load()), "%d from slices", sliced.Load())
				uncounted += float64(used - admitted[i].Load())
			}
			for _, r := range replicas {
				lost += testutil.ToFloat64(r.(*Cache).metrics.units.WithLabelValues(outcomeLost))
			}
			g.Expect(uncounted).To(Equal(lost), "counted and not spent: commits that were too late")
		})
	}
}
