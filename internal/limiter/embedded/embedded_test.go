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

// newClient returns a client of server, which ends with the test.
func newClient(t *testing.T, server *embedded.Redis, err error) redis.UniversalClient {
	t.Helper()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(server.Close)
	client, err := redisclient.New(server.URL(), time.Second)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(client.Close()).To(Succeed()) })
	return client
}

// clock is the time of an embedded server, which stands still between two moves.
type clock struct {
	now   time.Time
	ticks chan time.Time
}

// newClientWithClock returns a client of a server that goes by the clock.
func newClientWithClock(t *testing.T) (redis.UniversalClient, *clock) {
	t.Helper()
	c := &clock{now: time.UnixMilli(1_790_000_000_000), ticks: make(chan time.Time)}
	server, err := embedded.StartWithClock(c.now, c.ticks)
	return newClient(t, server, err), c
}

// Advance moves the clock. The second tick is received once the first was obeyed.
func (c *clock) Advance(d time.Duration) {
	c.now = c.now.Add(d)
	c.ticks <- c.now
	c.ticks <- c.now
}

// The clock goes by itself, and keys expire by it.
func TestClockGoesByItself(t *testing.T) {
	g := NewWithT(t)
	server, err := embedded.Start()
	client := newClient(t, server, err)
	g.Expect(client.Time(t.Context()).Val()).To(BeTemporally("~", time.Now(), time.Minute))
	g.Expect(client.Set(t.Context(), "k", "v", 20*time.Millisecond).Err()).To(Succeed())
	g.Eventually(func() int64 { return client.DBSize(t.Context()).Val() }).Should(BeZero())
}

// The scripts run on the embedded server as they do on Redis: limits hold,
// windows and blocks end, and keys go.
func TestScriptsRunEmbedded(t *testing.T) {
	g := NewWithT(t)
	client, clock := newClientWithClock(t)

	store := script.NewStore(client, "weir:")
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
	g.Expect(check().Verdict).To(Equal(script.Blocked), "to the end")
	clock.Advance(denied.BlockLeft - 99*time.Millisecond)
	g.Expect(check().Verdict).To(Equal(script.Admitted))
	clock.Advance(time.Second)
	g.Expect(client.DBSize(t.Context()).Val()).To(BeZero(), "everything expires")
}

// Each algorithm admits its quota, says how long to wait, is right about it, and
// leaves nothing behind.
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
			store := script.NewStore(client, "weir:")
			l.Name, l.Window = "l", window
			policy := script.NewPolicy("shop/login", false, false, []script.Limit{l})
			check := func() script.LimitReply {
				reply, err := store.Evaluate(t.Context(), &script.Call{Entries: []script.Entry{{Policy: policy, Key: "alice", Cost: 3}}})
				g.Expect(err).NotTo(HaveOccurred())
				return reply.Entries[0].Limits[0]
			}
			g.Expect(check().Fits).To(BeTrue())
			denied := check()
			g.Expect(denied.Fits).To(BeFalse())
			g.Expect(denied.RetryAfter).To(And(BeNumerically(">", 0), BeNumerically("<=", window+2*time.Millisecond)))
			if l.Algorithm != script.Suppressed { // it counts what it refuses
				// A key lives to the end of its last millisecond in Redis, not here.
				clock.Advance(denied.RetryAfter - 2*time.Millisecond)
				g.Expect(check().Fits).To(BeFalse(), "too early")
				clock.Advance(2 * time.Millisecond)
				g.Expect(check().Fits).To(BeTrue())
			}
			clock.Advance(time.Second)
			g.Expect(client.DBSize(t.Context()).Val()).To(BeZero(), "everything expires")
		})
	}
}

// Numbers beyond the integers of a double are written and read back.
func TestLargestBucketRunsEmbedded(t *testing.T) {
	g := NewWithT(t)
	client, _ := newClientWithClock(t)
	const most = 1<<31 - 1
	policy := script.NewPolicy("shop/login", false, false, []script.Limit{
		{Name: "l", Algorithm: script.TokenBucket, Quota: most, Threshold: 1, Window: 720 * time.Hour},
	})
	store := script.NewStore(client, "weir:")
	for _, want := range []bool{true, false} {
		reply, err := store.Evaluate(t.Context(), &script.Call{Entries: []script.Entry{{Policy: policy, Key: "alice", Cost: most}}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(reply.Entries[0].Limits[0].Fits).To(Equal(want))
	}
}
