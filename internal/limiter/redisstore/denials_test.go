// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/denialcache"
	"github.com/weir-dev/weir/internal/limiter/quota"
)

// Random calls, edits, resets and blocks have the same outcome with the cache as in the model,
// and a denial that is cached leaves every later reply of Redis as it would be without.
func TestCacheAgreesWithModel(t *testing.T) {
	model := newModelBackend()
	server, client := newServerBackend(t, servers[0])
	fromCache := 0
	for seed := range uint64(100) {
		model.clear(t)
		server.clear(t)
		store := newStore(client)
		store.now = server.clock.Now
		cache := denialcache.New(store, server.clock.Now)
		w := newWorkload(rand.New(rand.NewPCG(seed, 17)), allAlgorithms, features{substitutes: true, holds: true})
		now := server.clock.Now()
		var history []string
		for range 200 {
			now = now.Add(time.Duration(w.r.Int64N(3000)) * time.Microsecond)
			model.setTime(t, now)
			server.setTime(t, now)
			did, do := w.nextStep()
			for range 1 + w.r.IntN(3) { // a denied caller tries again
				history = append(history, did)
				if compareOutcomes(t, do, model, cache, history) {
					fromCache++
				}
			}
		}
	}
	NewWithT(t).Expect(fromCache).To(BeNumerically(">", 500), "replies from memory")
}

// compareOutcomes does one step with the model and with the cache, and reports whether the reply
// came from memory: then only the outcome of the call must be the same, and the wait not longer than by its
// rounding.
func compareOutcomes(t *testing.T, do func(context.Context, decider) (any, error), model *backend, cache *denialcache.Cache, history []string) bool {
	t.Helper()
	g := NewWithT(t)
	want, err := do(t.Context(), model)
	g.Expect(err).NotTo(HaveOccurred())
	got, err := do(t.Context(), cache)
	g.Expect(err).NotTo(HaveOccurred())
	recent := strings.Join(history[max(0, len(history)-12):], "\n")
	reply, isReply := got.(*quota.Reply)
	if !isReply || !reply.FromCache {
		g.Expect(got).To(Equal(want), recent)
		return false
	}
	exact := want.(*quota.Reply) //nolint:forcetypeassert // as from the cache
	wait := func(r *quota.Reply) (longest time.Duration) {
		for i := range r.Entries {
			longest = max(longest, r.Entries[i].BlockLeft)
			for _, l := range r.Entries[i].Limits {
				longest = max(longest, l.RetryAfter)
			}
		}
		return longest
	}
	g.Expect(exact.Entries).To(ContainElement(HaveField("Verdict", Not(Equal(quota.Admitted)))), recent)
	g.Expect(wait(reply)).To(And(BeNumerically(">", 0), BeNumerically("<=", wait(exact)+time.Millisecond)), recent)
	return true
}
