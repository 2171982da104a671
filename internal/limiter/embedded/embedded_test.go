// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/embedded"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/script"
)

// newClient returns a client of an embedded server of its own.
func newClient(t *testing.T) redis.UniversalClient {
	t.Helper()
	server, err := embedded.Start()
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(server.Close)
	client, err := redisclient.New(server.URL(), time.Second)
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { gomega.NewWithT(t).Expect(client.Close()).To(gomega.Succeed()) })
	return client
}

// The scripts run on the embedded server as they do on Redis: limits hold,
// windows and blocks end, and keys go.
func TestScriptsRunEmbedded(t *testing.T) {
	g := gomega.NewWithT(t)
	client := newClient(t)

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
		g.Expect(err).NotTo(gomega.HaveOccurred())
		return reply.Entries[0]
	}
	g.Expect(check().Verdict).To(gomega.Equal(script.Admitted))
	g.Expect(check().Verdict).To(gomega.Equal(script.Admitted))
	tripped := time.Now()
	refused := check()
	g.Expect(refused.Verdict).To(gomega.Equal(script.Tripped))
	g.Expect(refused.BlockLeft).To(gomega.Equal(101 * time.Millisecond))
	g.Expect(check().Verdict).To(gomega.Equal(script.Blocked))
	g.Eventually(func() script.Verdict { return check().Verdict }).WithPolling(time.Millisecond).
		Should(gomega.Equal(script.Admitted))
	g.Expect(time.Since(tripped)).To(gomega.BeNumerically(">=", 100*time.Millisecond), "blocked to the end")
	g.Eventually(func() int64 { return client.DBSize(t.Context()).Val() }).Should(gomega.BeZero(), "everything expires")
}

// Each algorithm admits its quota, says how long to wait, is right about it, and
// leaves nothing behind.
func TestAlgorithmsRunEmbedded(t *testing.T) {
	client := newClient(t)
	store := script.NewStore(client, "weir:")
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
			g := gomega.NewWithT(t)
			l.Name, l.Window = "l", window
			policy := script.NewPolicy("shop/login", false, false, []script.Limit{l})
			check := func() script.LimitReply {
				reply, err := store.Evaluate(t.Context(), &script.Call{Entries: []script.Entry{{Policy: policy, Key: "alice", Cost: 3}}})
				g.Expect(err).NotTo(gomega.HaveOccurred())
				return reply.Entries[0].Limits[0]
			}
			g.Expect(check().Fits).To(gomega.BeTrue())
			start := time.Now()
			refused := check()
			g.Expect(refused.Fits).To(gomega.BeFalse())
			g.Expect(refused.Wait).To(gomega.And(gomega.BeNumerically(">", 0), gomega.BeNumerically("<=", window+2*time.Millisecond)))
			if l.Algorithm != script.Suppressed { // it counts what it refuses
				g.Eventually(func() bool { return check().Fits }).WithPolling(time.Millisecond).Should(gomega.BeTrue())
				g.Expect(time.Since(start)).To(gomega.BeNumerically(">", refused.Wait/2), "its clock ticks, so not to the microsecond")
			}
			g.Eventually(func() int64 { return client.DBSize(t.Context()).Val() }).Should(gomega.BeZero(), "everything expires")
		})
	}
}

// Numbers beyond the integers of a double are written and read back.
func TestLargestBucketRunsEmbedded(t *testing.T) {
	g := gomega.NewWithT(t)
	client := newClient(t)
	const most = 1<<31 - 1
	policy := script.NewPolicy("shop/login", false, false, []script.Limit{
		{Name: "l", Algorithm: script.TokenBucket, Quota: most, Threshold: 1, Window: 720 * time.Hour},
	})
	store := script.NewStore(client, "weir:")
	for _, want := range []bool{true, false} {
		reply, err := store.Evaluate(t.Context(), &script.Call{Entries: []script.Entry{{Policy: policy, Key: "alice", Cost: most}}})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(reply.Entries[0].Limits[0].Fits).To(gomega.Equal(want))
	}
}
