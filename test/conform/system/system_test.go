// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func newTestEnvironment(t *testing.T) *Environment {
	t.Helper()
	env, err := NewEnvironment()
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(env.Close()).To(Succeed()) })
	return env
}

var twoLimits = []Limit{{Keys: []string{"account"}, Units: 5, Window: time.Minute}, {Keys: []string{"tenant", "user"}, Units: 7, Window: 24 * time.Hour}}

func TestConfigurations(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ratelimitConfig(twoLimits)).To(Equal(`domain: conform
descriptors:
  - key: "account"
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: "tenant"
    descriptors:
      - key: "user"
        rate_limit: {unit: day, requests_per_unit: 7}
`))
	g.Expect(limitadorLimits(twoLimits)).To(Equal(`- namespace: conform
  max_value: 5
  seconds: 60
  conditions: ["\"account\" in descriptors[0]"]
  variables: ["descriptors[0][\"account\"]"]
- namespace: conform
  max_value: 7
  seconds: 86400
  conditions: ["\"tenant\" in descriptors[0]", "\"user\" in descriptors[0]"]
  variables: ["descriptors[0][\"tenant\"]", "descriptors[0][\"user\"]"]
`))
	g.Expect((&weir{algorithm: "GCRA"}).policies(twoLimits)).To(And(
		ContainSubstring(`descriptors: [{key: "tenant"}, {key: "user"}]`),
		ContainSubstring("limits: [{name: all, algorithm: GCRA, threshold: 5, window: 1m}]"),
		ContainSubstring("limits: [{name: all, algorithm: GCRA, threshold: 7, window: 24h}]"),
	))
	limit, ok := NamedBy(twoLimits, Descriptor{{Key: "tenant", Value: "a"}, {Key: "user", Value: "b"}})
	g.Expect(ok).To(BeTrue())
	g.Expect(limit.Units).To(Equal(uint32(7)))
	_, ok = NamedBy(twoLimits, Descriptor{{Key: "user"}})
	g.Expect(ok).To(BeFalse())
}

// A store keeps or loses its data by its options, hangs, and moves its clock.
func TestStore(t *testing.T) {
	for name, durable := range map[string]bool{"durable": true, "in memory": false} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			store, err := newTestEnvironment(t).startRedis(t.Context(), Options{Durable: durable})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(store.client.Set(t.Context(), "k", "v", 0).Err()).To(Succeed())
			g.Expect(store.Restart(t.Context())).To(Succeed())
			kept := store.client.Exists(t.Context(), "k").Val()
			g.Expect(kept).To(Equal(map[bool]int64{true: 1}[durable]))

			before := store.client.Time(t.Context()).Val()
			g.Expect(store.MoveClock(time.Hour)).To(Succeed())
			g.Expect(store.MoveClock(-time.Minute)).To(Succeed())
			g.Expect(store.client.Time(t.Context()).Val().Sub(before)).To(BeNumerically("~", 59*time.Minute, time.Minute/2))

			g.Expect(store.Freeze()).To(Succeed())
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			g.Expect(store.client.Ping(ctx).Err()).To(HaveOccurred())
			g.Expect(store.Thaw()).To(Succeed())
			g.Expect(store.client.Ping(t.Context()).Err()).NotTo(HaveOccurred())
			g.Expect(store.Failover(t.Context())).To(MatchError(ErrUnsupported))
			g.Expect(store.ResidentBytes()).To(BeNumerically(">", 1<<20))
		})
	}
}

func TestFailover(t *testing.T) {
	g := NewWithT(t)
	store, err := newTestEnvironment(t).startRedis(t.Context(), Options{Sentinel: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(store.client.Set(t.Context(), "k", "v", 0).Err()).To(Succeed())
	g.Expect(store.client.Do(t.Context(), "WAIT", 1, 5000).Int()).To(Equal(1))
	g.Expect(store.Failover(t.Context())).To(Succeed())
	g.Expect(store.sentinel.replica.client.Get(t.Context(), "k").Val()).To(Equal("v"))
}

// A program that does not become ready is an error with its log.
func TestProcessThatEnds(t *testing.T) {
	g := NewWithT(t)
	err := newTestEnvironment(t).startProcess(t.Context(), &Process{
		program: "sh", args: []string{"-c", "echo broken >&2; exit 3"}, ready: func(context.Context) error { return ErrUnsupported },
	})
	g.Expect(err).To(MatchError(ContainSubstring("broken")))
}
