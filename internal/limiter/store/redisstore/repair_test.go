// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
)

// otherForms are texts that are not states of counters.
var otherForms = []string{"", "burst", "x y", "1 z", " ", "-", "/f", "12x", "\x00", "-5", "007"}

// repairCalls are the calls that repair what the first ones found. They spend 2.
var repairCalls = map[string]store.Entry{
	"check":   {Cost: 2},
	"charge":  {Cost: 2, Action: store.Charge},
	"reserve": {Cost: 2, Action: store.Reserve, ID: "id", TTL: time.Minute},
}

// A value that is not the state of a counter is as if it were missing. Peeks and denied checks leave it,
// and the next spend overwrites it.
func TestOtherTextsInCountersAreRepaired(t *testing.T) {
	for _, a := range []store.Algorithm{store.FixedWindow, store.TokenBucket, store.GCRA} {
		for _, text := range otherForms {
			t.Run(fmt.Sprintf("%s %q", a, text), func(t *testing.T) {
				testRepair(t, a, func(g *WithT, client *redis.Client, key string) {
					g.Expect(client.Set(t.Context(), key, text, 0).Err()).To(Succeed())
				}, func(g *WithT, client *redis.Client, key string) {
					g.Expect(client.Get(t.Context(), key).Val()).To(Equal(text), "nothing is spent yet")
				})
			})
		}
	}
}

// Earlier releases store a debt of GCRA without its rate, and read a rate as a fraction of a microsecond.
func TestDebtsOfEarlierReleases(t *testing.T) {
	g := NewWithT(t)
	s, client := newSubject(t, servers[0])
	policy := store.NewPolicy("shop/p", false, false, []store.Limit{{Name: "l", Algorithm: store.GCRA, Quota: 1, Threshold: 60, Window: time.Hour}})
	key := store.EncodeKey("k")
	decide := func(e store.Entry) *store.LimitReply {
		e.Policy, e.Key = policy, key
		reply, err := s.Evaluate(t.Context(), &store.Call{Entries: []store.Entry{e}})
		g.Expect(err).NotTo(HaveOccurred())
		return &reply.Entries[0].Limits[0]
	}
	decide(store.Entry{Cost: 100, Action: store.Charge, ID: "a"})
	name := client.Keys(t.Context(), "*:gc:*").Val()[0]
	arrival, debt, _ := strings.Cut(client.Get(t.Context(), name).Val(), "+")
	g.Expect(debt).To(Equal("5940000000.60"), "99 minutes at 60 an hour")
	read, err := strconv.ParseFloat(debt, 64) // as tonumber
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read).To(BeNumerically("~", 5_940_000_000, 1))

	g.Expect(client.Set(t.Context(), name, arrival+"+5940000000", time.Hour).Err()).To(Succeed())
	g.Expect(decide(store.Entry{Cost: 1}).Used).To(BeNumerically(">=", 99), "the rate of the limit")
	decide(store.Entry{Cost: 1, Action: store.Charge, ID: "b"})
	g.Expect(client.Get(t.Context(), name).Val()).To(HaveSuffix(".60"))
}

// A key of another type is repaired as well.
func TestKeysOfAnotherTypeAreRepaired(t *testing.T) {
	for _, a := range []store.Algorithm{store.FixedWindow, store.TokenBucket, store.GCRA, store.SlidingLog, store.SlidingWindow} {
		t.Run(string(a), func(t *testing.T) {
			testRepair(t, a, func(g *WithT, client *redis.Client, key string) {
				g.Expect(client.HSet(t.Context(), key, "a", 1).Err()).To(Succeed())
			}, func(g *WithT, client *redis.Client, key string) {
				g.Expect(client.HGet(t.Context(), key, "a").Val()).To(Equal("1"), "nothing is spent yet")
			})
		})
	}
}

// testRepair lets each of the calls spend from a limit of 5 whose state damage replaces.
func testRepair(t *testing.T, a store.Algorithm, damage, expectDamage func(g *WithT, client *redis.Client, key string)) {
	t.Helper()
	for _, s := range servers {
		b, client := newSubject(t, s)
		backend := b.Store.(*Store) //nolint:forcetypeassert // it is one
		var log bytes.Buffer
		backend.repairs.logger = slog.New(slog.NewTextHandler(&log, nil))
		for name, second := range repairCalls {
			for _, plain := range []bool{true, false} {
				if plain && second.Action != store.Check {
					continue
				}
				t.Run(fmt.Sprint(s.name, " ", name, " ", plain), func(t *testing.T) {
					g := NewWithT(t)
					b.Clear(t)
					before := testutil.ToFloat64(backend.repairs.total)
					limit := storetest.SlowLimit(a, 5)
					if a == store.SlidingWindow {
						limit.Bucket = time.Minute
					}
					policy := storetest.ReservingPolicy("repaired", limit)
					if plain {
						policy = store.NewPolicy("test/repaired", false, false, []store.Limit{limit})
					}
					key := backend.key("a", policy.StateName(0))
					damage(g, client, key)
					evaluate := func(e store.Entry) store.EntryReply {
						e.Policy, e.Key = policy, "a"
						return b.MustEvaluate(t, &store.Call{Entries: []store.Entry{e}}).Entries[0]
					}
					g.Expect(evaluate(store.Entry{Cost: 1, Peek: true}).Limits[0].Used).To(BeZero())
					g.Expect(evaluate(store.Entry{Cost: 6}).Verdict).To(Equal(store.Denied))
					expectDamage(g, client, key)
					g.Expect(testutil.ToFloat64(backend.repairs.total)).To(Equal(before))
					r := evaluate(second)
					g.Expect(r.Verdict).To(Equal(store.Admitted))
					g.Expect(r.Limits[0].Used).To(Equal(int64(2)))
					g.Expect(evaluate(store.Entry{Cost: 3}).Verdict).To(Equal(store.Admitted))
					g.Expect(evaluate(store.Entry{Cost: 1}).Verdict).To(Equal(store.Denied))
					g.Expect(client.PTTL(t.Context(), key).Val()).To(BeNumerically(">", 0))
					g.Expect(testutil.ToFloat64(backend.repairs.total)).To(Equal(before + 1))
				})
			}
		}
		NewWithT(t).Expect(log.String()).To(And(ContainSubstring("policy=test/repaired"), ContainSubstring("keyHash=")))
		NewWithT(t).Expect(strings.Count(log.String(), "\n")).To(BeNumerically("<=", 2), "one line a second")
	}
}

// INCRBY does not read all numbers that Lua reads. The next spend overwrites such a value, also in a
// batch of equal checks.
func TestNumbersOfOtherFormsAreRepaired(t *testing.T) {
	for _, s := range servers {
		b, client := newSubject(t, s)
		backend := b.Store.(*Store) //nolint:forcetypeassert // it is one
		for _, text := range []string{"0x1", "1e0", "01", "1.0", " 1"} {
			for _, calls := range []int{1, 3} {
				t.Run(fmt.Sprintf("%s %q %d", s.name, text, calls), func(t *testing.T) {
					g := NewWithT(t)
					b.Clear(t)
					policy := store.NewPolicy("test/repaired", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 5)})
					key := backend.key("a", policy.StateName(0))
					g.Expect(client.Set(t.Context(), key, text, time.Second).Err()).To(Succeed())
					batch := make([]*pending, calls)
					for i := range batch {
						batch[i] = pendingOf(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 1}}})
					}
					repaired := 0
					for i, o := range backend.send(t.Context(), batch) {
						r := decoded(t, batch[i], o)
						g.Expect(r.Entries[0].Verdict).To(Equal(store.Admitted))
						g.Expect(r.Entries[0].Limits[0].Used).To(Equal(int64(i + 1)))
						repaired += len(r.repaired)
					}
					g.Expect(repaired).To(Equal(1))
					g.Expect(client.PTTL(t.Context(), key).Val()).To(BeNumerically(">", time.Second), "a new window")
				})
			}
		}
	}
}

// Equal calls write at the end of their run, and report a repair there.
func TestKeysOfAnotherTypeAreRepairedOnceForEqualCalls(t *testing.T) {
	g := NewWithT(t)
	_, client := newSubject(t, servers[0])
	backend := newStore(client)
	policy := store.NewPolicy("test/repaired", true, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 5)})
	key := backend.key("a", policy.StateName(0))
	g.Expect(client.RPush(t.Context(), key, "x").Err()).To(Succeed())
	batch := make([]*pending, 3)
	for i := range batch {
		batch[i] = pendingOf(t, &store.Call{Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 1}}})
	}
	var repaired [][]int
	for i, o := range backend.send(t.Context(), batch) {
		r := decoded(t, batch[i], o)
		g.Expect(r.Entries[0].Limits[0].Used).To(Equal(int64(i + 1)))
		repaired = append(repaired, r.repaired)
	}
	g.Expect(repaired).To(ConsistOf([]int{0}, BeNil(), BeNil()))
	g.Expect(client.Get(t.Context(), key).Val()).To(Equal("3"))
}
