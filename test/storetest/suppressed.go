// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Above the threshold, from slightly above to three times the load, about the threshold is
// admitted, with fine and with the coarsest buckets. Below it everything is admitted. No
// interval exceeds the hard limit.
func suppressedAdmitsAboutTheThreshold(t *testing.T, subject *Subject) {
	t.Helper()
	buckets, loads, windows := []time.Duration{time.Second / 60, time.Second / 2}, []float64{0.9, 1.1, 1.3, 1.5, 1.7, 1.9, 3}, 50
	if subject.IsRemote {
		buckets, loads, windows = buckets[:1], []float64{1.6}, 25
	}
	for _, bucket := range buckets {
		for _, load := range loads {
			t.Run(fmt.Sprintf("bucket %v load %v", bucket, load), func(t *testing.T) {
				expectAboutTheThreshold(t, subject, bucket, load, windows)
			})
		}
	}
}

func expectAboutTheThreshold(t *testing.T, subject *Subject, bucket time.Duration, load float64, windows int) {
	t.Helper()
	const threshold = 200
	g := NewWithT(t)
	subject.Clear(t)
	limit := store.Limit{
		Name: "l", Algorithm: store.Suppressed, Quota: threshold, Threshold: threshold, HardQuota: threshold * 3 / 2,
		Window: time.Second, Bucket: bucket.Truncate(time.Microsecond),
	}
	offered := int(load * threshold * float64(windows))
	hits, shares := offer(t, subject, limit, offered, time.Duration(windows)*time.Second)
	want := float64(min(offered, threshold*windows))
	g.Expect(float64(len(hits))).To(BeNumerically("~", want, 0.05*want))
	g.Expect(shares/float64(offered)).To(BeNumerically("~", max(0, 1-1/load), 0.05), "the reported suppression factor")
	if load < 1 {
		g.Expect(hits).To(HaveLen(offered))
		return
	}
	ExpectEveryInterval(g, hits, threshold*3/2, time.Second)
}

// offer sends the given number of checks at irregular moments of the span. It returns the
// admitted ones, and the sum of the suppression factors of all replies.
func offer(t *testing.T, subject *Subject, limit store.Limit, checks int, span time.Duration) (admitted []Hit, shares float64) {
	t.Helper()
	r := rand.New(rand.NewPCG(5, 6))
	policy := store.NewPolicy("test/shed", false, false, []store.Limit{limit})
	start := subject.Clock.Now()
	for i := range checks {
		at := (time.Duration(i) + time.Duration(r.Int64N(1000))/1000) * span / time.Duration(checks)
		subject.Clock.Set(start.Add(at))
		reply := subject.MustEvaluate(t, &store.Call{Draw: r.Uint32(), Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 1}}})
		shares += reply.Entries[0].Limits[0].Suppression
		if reply.Entries[0].Verdict == store.Admitted {
			admitted = append(admitted, Hit{At: subject.Clock.Now().UnixMicro(), Cost: 1})
		}
	}
	return admitted, shares
}

// Only the hard limit starts a block: random shedding does not.
func suppressedBlocksAtTheHardLimitOnly(t *testing.T, subject *Subject) {
	t.Helper()
	g := NewWithT(t)
	policy := store.NewPolicy("test/shed", false, false, []store.Limit{{
		Name: "l", Algorithm: store.Suppressed, Quota: 2, Threshold: 2, HardQuota: 3,
		Window: time.Second, Bucket: 100 * time.Millisecond, Block: time.Minute,
	}})
	check := func(draw uint32) store.EntryReply {
		return subject.MustEvaluate(t, &store.Call{Draw: draw, Entries: []store.Entry{{Policy: policy, Key: "a", Cost: 1}}}).Entries[0]
	}
	const unlucky, lucky = 1<<32 - 1, 0
	g.Expect(check(unlucky).Verdict).To(Equal(store.Admitted), "below the threshold all pass")
	g.Expect(check(unlucky).Verdict).To(Equal(store.Admitted))
	shed := check(unlucky)
	g.Expect(shed.Verdict).To(Equal(store.Denied))
	g.Expect(shed.Limits[0].Shed).To(BeTrue())
	g.Expect(shed.Limits[0].Suppression).To(BeNumerically("~", 1.0/3, 1e-6))
	g.Expect(check(lucky).Verdict).To(Equal(store.Admitted), "three were admitted: the hard limit")
	hard := check(lucky)
	g.Expect(hard.Verdict).To(Equal(store.BlockStarted))
	g.Expect(hard.Limits[0].Shed).To(BeFalse())
	g.Expect(check(lucky).Verdict).To(Equal(store.Blocked))
}
