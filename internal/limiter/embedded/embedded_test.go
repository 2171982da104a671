// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/embedded"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// newClient returns a client of the server and closes both after the test.
func newClient(t *testing.T, server *embedded.Redis, err error) redis.UniversalClient {
	t.Helper()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(server.Close)
	client, err := redisclient.New(server.URL(), time.Second)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(client.Close()).To(Succeed()) })
	return client
}

// clock is the clock of an embedded server, which only Advance moves.
type clock struct {
	now   time.Time
	ticks chan time.Time
}

// newClientWithClock returns a client of a server with the returned clock.
func newClientWithClock(t *testing.T) (redis.UniversalClient, *clock) {
	t.Helper()
	c := &clock{now: time.UnixMilli(1_790_000_000_000), ticks: make(chan time.Time)}
	server, err := embedded.StartWithClock(c.now, c.ticks)
	return newClient(t, server, err), c
}

// Advance moves the clock. The server receives the second tick after it applied the first.
func (c *clock) Advance(d time.Duration) {
	c.now = c.now.Add(d)
	c.ticks <- c.now
	c.ticks <- c.now
}

// The clock follows the time of the machine, and keys expire by it.
func TestKeysExpireByTheClock(t *testing.T) {
	g := NewWithT(t)
	server, err := embedded.Start()
	client := newClient(t, server, err)
	g.Expect(client.Time(t.Context()).Val()).To(BeTemporally("~", time.Now(), time.Minute))
	g.Expect(client.Set(t.Context(), "k", "v", 20*time.Millisecond).Err()).To(Succeed())
	g.Eventually(func() int64 { return client.DBSize(t.Context()).Val() }).Should(BeZero())
}

// The scripts run on the embedded server as they do on Redis: limits hold, windows and
// blocks end, and keys expire.
func TestScriptsRunEmbedded(t *testing.T) {
	g := NewWithT(t)
	client, clock := newClientWithClock(t)

	store := script.NewStore(script.Options{Client: client, Prefix: "weir:", Timeout: 5 * time.Second})
	policy := script.NewPolicy("shop/login", true, false, []script.Limit{
		{Name: "fixed", Algorithm: script.FixedWindow, Quota: 3, Threshold: 3, Window: 50 * time.Millisecond},
		{
			Name: "log", Algorithm: script.SlidingLog, Quota: 2, Threshold: 2, Window: 50 * time.Millisecond,
			Block: 100 * time.Millisecond,
		},
	})
	check := func() script.EntryReply {
		reply, err := store.Evaluate(t.Context(), &script.Call{Entries: []script.Entry{
			{Policy: policy, Key: script.EncodeKey("alice"), Cost: 1},
		}})
		g.Expect(err).NotTo(HaveOccurred())
		return reply.Entries[0]
	}
	g.Expect(check().Verdict).To(Equal(script.Admitted))
	g.Expect(check().Verdict).To(Equal(script.Admitted))
	denied := check()
	g.Expect(denied.Verdict).To(Equal(script.Tripped))
	g.Expect(denied.BlockLeft).To(Equal(101 * time.Millisecond))
	clock.Advance(99 * time.Millisecond)
	g.Expect(check().Verdict).To(Equal(script.Blocked), "until the block ends")
	clock.Advance(denied.BlockLeft - 99*time.Millisecond)
	g.Expect(check().Verdict).To(Equal(script.Admitted))
	clock.Advance(time.Second)
	g.Expect(client.DBSize(t.Context()).Val()).To(BeZero(), "everything expires")
}

// Each algorithm admits its quota, reports the correct RetryAfter, and all its keys expire.
func TestAlgorithmsRunEmbedded(t *testing.T) {
	const window = 60 * time.Millisecond
	for _, l := range []script.Limit{
		{Algorithm: script.FixedWindow, Quota: 3, Threshold: 3},
		{Algorithm: script.SlidingLog, Quota: 3, Threshold: 3},
		{Algorithm: script.SlidingWindow, Quota: 3, Threshold: 3, Bucket: time.Millisecond},
		{Algorithm: script.TokenBucket, Quota: 3, Threshold: 3},
		{Algorithm: script.GCRA, Quota: 3, Threshold: 7},
		{Algorithm: script.Suppressed, Quota: 3, Threshold: 3, HardQuota: 3, Bucket: time.Millisecond},
	} {
		t.Run(string(l.Algorithm), func(t *testing.T) {
			g := NewWithT(t)
			client, clock := newClientWithClock(t)
			store := script.NewStore(script.Options{Client: client, Prefix: "weir:", Timeout: 5 * time.Second})
			l.Name, l.Window = "l", window
			policy := script.NewPolicy("shop/login", false, false, []script.Limit{l})
			check := func() script.LimitReply {
				reply, err := store.Evaluate(t.Context(), &script.Call{Entries: []script.Entry{{Policy: policy, Key: "alice", Cost: 3}}})
				g.Expect(err).NotTo(HaveOccurred())
				return reply.Entries[0].Limits[0]
			}
			g.Expect(check().Admits).To(BeTrue())
			denied := check()
			g.Expect(denied.Admits).To(BeFalse())
			g.Expect(denied.RetryAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", window+2*time.Millisecond)))
			if l.Algorithm != script.Suppressed { // it also counts denied checks
				// In Redis a key exists until the end of its last millisecond, not here.
				clock.Advance(denied.RetryAfter - 2*time.Millisecond)
				g.Expect(check().Admits).To(BeFalse(), "too early")
				clock.Advance(2 * time.Millisecond)
				g.Expect(check().Admits).To(BeTrue())
			}
			clock.Advance(time.Second)
			g.Expect(client.DBSize(t.Context()).Val()).To(BeZero(), "everything expires")
		})
	}
}

// A deficit beyond the integers of a double is written and read back.
func TestLargestBucketRunsEmbedded(t *testing.T) {
	g := NewWithT(t)
	client, _ := newClientWithClock(t)
	const most = 1<<31 - 1
	policy := script.NewPolicy("shop/login", false, false, []script.Limit{
		{Name: "l", Algorithm: script.TokenBucket, Quota: most, Threshold: 1, Window: 720 * time.Hour},
	})
	store := script.NewStore(script.Options{Client: client, Prefix: "weir:", Timeout: 5 * time.Second})
	for _, want := range []bool{true, false} {
		reply, err := store.Evaluate(t.Context(), &script.Call{Entries: []script.Entry{{Policy: policy, Key: "alice", Cost: most}}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(reply.Entries[0].Limits[0].Admits).To(Equal(want))
	}
}
