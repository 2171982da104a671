// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/test/testenv"
)

// decides makes the collector see n allowed decisions of the policy.
func decides(c *Collector, policy string, n uint64) {
	c.Watch(func(visit func(string, limiter.DecisionCounts)) { visit(policy, limiter.DecisionCounts{Allowed: n}) })
}

// end starts the collector and ends it, as the process of a replica does when it drains.
func end(t *testing.T, c *Collector) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	NewWithT(t).Expect(c.Start(ctx)).To(Succeed())
}

// next returns a collector of another replica on the same Redis, which is the only live one.
func next(t *testing.T, server *testenv.Redis, name string) *Collector {
	t.Helper()
	return newCollector(t, Options{
		Redis: newClient(t, server.URL), Prefix: "weir:", Replica: name, Live: func(context.Context) ([]string, int) { return []string{name}, 1 },
	})
}

func allowed(a *limiter.Activity) (sum int64) {
	for _, n := range a.Total.Allowed {
		sum += n
	}
	return sum
}

// A rollout replaces every replica, and the figures of the last hour and of the last minutes stay.
func TestARolloutKeepsWhatWasObserved(t *testing.T) {
	g := NewWithT(t)
	all, server := onRedis(t, "a", "b")
	for _, c := range all {
		c.began = time.Now().Add(-time.Hour - time.Minute)
		decides(c, "shop/login", 100)
		deny(c, "shop/login", "alice", 10)
	}
	end(t, all["a"])
	c := next(t, server, "c")
	decides(c, "shop/login", 7)
	deny(c, "shop/login", "alice", 1)
	c.sample()
	end(t, all["b"])
	a, err := c.Activity(t.Context(), limiter.Scope{Namespace: "shop"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(allowed(a)).To(Equal(int64(207)))
	g.Expect(keysOf(a)).To(Equal(map[string]int64{"shop/login alice": 21}))
	g.Expect([][]string{a.Reported, a.Missing}).To(Equal([][]string{{"c"}, nil}))
	g.Expect(a.Since.IsZero()).To(BeTrue(), "the whole hour is counted")

	d := next(t, server, "d")
	hash := listedKey("alice").Hash
	g.Expect(d.Resolve(t.Context(), "shop/login", hash)).To(BeEquivalentTo("alice"), "a listed hash stands for its key")
	client := newClient(t, server.URL)
	g.Expect(client.PTTL(t.Context(), "weir:"+leftKey).Val()).To(BeNumerically("~", time.Hour, time.Minute))
	g.Expect(client.Exists(t.Context(), "weir:"+partsKey).Val()).To(BeZero(), "none counts twice")
}

// A replica that is killed takes its figures along, and the answer has since when they count.
func TestActivityHasSinceWhenItCounts(t *testing.T) {
	g := NewWithT(t)
	_, server := onRedis(t)
	c := next(t, server, "c")
	c.began = time.Now().Add(-10 * time.Minute)
	decides(c, "shop/login", 1)
	c.sample()
	a, err := c.Activity(t.Context(), limiter.Scope{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(a.Since).To(BeTemporally("~", c.began, 30*time.Second))
}

func TestCountedSince(t *testing.T) {
	const now = 1_000_000 // slot
	at := func(minutesAgo int64) int64 { return (now - 6*minutesAgo) * 10 }
	of := func(since, until int64) *part { return &part{Since: at(since), Slot: now - 6*until} }
	for name, tc := range map[string]struct {
		parts []*part
		want  int64 // minutes ago, -1 for the whole hour
	}{
		"one":                       {[]*part{of(10, 0)}, 10},
		"for the whole hour":        {[]*part{of(61, 0)}, -1},
		"the longest":               {[]*part{of(10, 0), of(30, 0)}, 30},
		"one after the other":       {[]*part{of(10, 0), of(40, 10), of(90, 40)}, -1},
		"a gap":                     {[]*part{of(10, 0), of(40, 12)}, 10},
		"an earlier release":        {[]*part{of(10, 0), {Slot: now}}, 10},
		"only of an earlier one":    {[]*part{{Slot: now}}, 0},
		"none has a sample so far":  {[]*part{{Since: 5}}, 0},
		"an ended one, and no more": {[]*part{of(70, 50), of(5, 0)}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			since := countedSince(tc.parts)
			switch {
			case tc.want < 0 || tc.parts[0].Slot == 0:
				NewWithT(t).Expect(since.IsZero()).To(BeTrue())
			default:
				NewWithT(t).Expect(since.Unix()).To(Equal(at(tc.want)))
			}
		})
	}
}

// What ended replicas leave is bounded, and the keys in it count for five minutes.
func TestWhatReplicasLeaveIsBounded(t *testing.T) {
	g := NewWithT(t)
	_, server := onRedis(t)
	client := newClient(t, server.URL)
	for i := range maxLeft + 3 {
		c := next(t, server, fmt.Sprintf("r%02d", i))
		c.began = time.Now().Add(-time.Minute)
		decides(c, "shop/login", 1)
		deny(c, "shop/login", "alice", 1)
		end(t, c)
	}
	g.Expect(client.HLen(t.Context(), "weir:"+leftKey).Val()).To(Equal(int64(maxLeft)))
	d := next(t, server, "d")
	a, err := d.Activity(t.Context(), limiter.Scope{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(allowed(a)).To(Equal(int64(maxLeft)))

	for field, value := range client.HGetAll(t.Context(), "weir:"+leftKey).Val() {
		stored := regexp.MustCompile(`^\d+`).FindString(value)
		millis, err := strconv.ParseInt(stored, 10, 64)
		g.Expect(err).NotTo(HaveOccurred())
		old := strconv.FormatInt(millis-6*time.Minute.Milliseconds(), 10)
		g.Expect(client.HSet(t.Context(), "weir:"+leftKey, field, old+value[len(stored):]).Err()).To(Succeed())
	}
	a, err = d.Activity(t.Context(), limiter.Scope{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(keysOf(a)).To(BeEmpty())
	g.Expect(allowed(a)).To(Equal(int64(maxLeft)), "rates count for an hour")
}

// A part that is too large loses its keys, then the policies that decided least.
func TestLargePartsLoseTheLeast(t *testing.T) {
	g := NewWithT(t)
	p := &part{}
	for i := range 64 {
		s := &series{}
		for j := range s {
			s[j] = sample{uint32(i * 1000), uint32((i*7919 + j*104729) % 65536)}
		}
		of := policyPart{Policy: fmt.Sprintf("shop/p%02d", i), Keys: []keyPart{{Key: "alice", Length: 5, Count: 1}}}
		of.Rates, of.Candidates = pack(s, 0)
		p.Policies = append(p.Policies, of)
	}
	encoded, err := p.encodeWithin(16 << 10)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(encoded)).To(BeNumerically("<=", 16<<10))
	decoded, err := decodePart(encoded)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(decoded.Policies).NotTo(BeEmpty())
	g.Expect(decoded.Policies[0].Policy).To(Equal("shop/p63"), "it decided most")
	g.Expect(decoded.Policies[0].Keys).To(BeEmpty())
}

func TestAReplicaWithoutObservationsLeavesNothing(t *testing.T) {
	g := NewWithT(t)
	_, server := onRedis(t)
	end(t, next(t, server, "idle"))
	g.Expect(newClient(t, server.URL).DBSize(t.Context()).Val()).To(BeZero())
}
