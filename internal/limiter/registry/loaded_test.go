// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestHealthOfALoadedRegistry(t *testing.T) {
	const first, second epoch = "weir/100-a", "weir/200-b"
	mine := &loaded{version: version{epoch: second, revision: 5, digest: "d5"}}
	for name, tc := range map[string]struct {
		loaded *loaded
		now    header
		want   followState
	}{
		"wiped":                           {mine, header{}, noEpoch},
		"empty before the first load":     {nil, header{}, noEpoch},
		"plans evicted":                   {mine, header{version: mine.version}, incomplete},
		"first load":                      {nil, header{version: version{first, 1, "d1"}, complete: true}, following},
		"the same":                        {mine, header{version: mine.version, complete: true}, following},
		"later revision":                  {mine, header{version: version{second, 7, "d7"}, complete: true}, following},
		"earlier revision":                {mine, header{version: version{second, 4, "d4"}, complete: true}, earlierRevision},
		"same revision, other digest":     {mine, header{version: version{second, 5, "dx"}, complete: true}, otherPlans},
		"earlier epoch":                   {mine, header{version: version{first, 9, "d9"}, complete: true}, earlierEpoch},
		"later epoch":                     {mine, header{version: version{"weir/201-c", 1, "d1"}, complete: true}, following},
		"later epoch of another owner":    {mine, header{version: version{"other/201-c", 1, "d1"}, complete: true}, ownedElsewhere},
		"another epoch of the same stamp": {mine, header{version: version{"weir/200-c", 9, "d9"}, complete: true}, earlierEpoch},
		"malformed epoch":                 {mine, header{version: version{"?", 9, "d9"}, complete: true}, ownedElsewhere},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(tc.loaded.compare(&tc.now, NewInstallation("weir", "").accepts)).To(Equal(tc.want))
		})
	}
}

func TestDigestIsIndependentOfOrder(t *testing.T) {
	g := NewWithT(t)
	fields := map[string]string{"shop/a": "1", "shop/b": "2", "shop/c": "3"}
	var none *loaded
	complete, bad := none.next(&header{}, fields, true)
	g.Expect(bad).To(HaveLen(3))
	step, _ := none.next(&header{}, map[string]string{"shop/c": "3", "shop/b": "x", "shop/d": "4"}, true)
	step, _ = step.next(&header{}, map[string]string{"shop/b": "2", "shop/d": ""}, false)
	step, _ = step.next(&header{}, map[string]string{"shop/a": "1", "shop/e": ""}, false)
	g.Expect(step.sum).To(Equal(complete.sum))
}

func TestDigestSeparatesIDAndData(t *testing.T) {
	NewWithT(t).Expect(digestOf("shop/a", []byte("b"))).NotTo(Equal(digestOf("shop/ab", nil)))
}

// However many plans a replica skips, the others count as running.
func TestSkippedPlansConcernOnlyThemselves(t *testing.T) {
	for _, bad := range []int{0, 1, namedSkips, namedSkips + 1, 5000} {
		g := NewWithT(t)
		fields := map[string]string{}
		for _, p := range makePlans(bad) {
			fields[p.ID()] = "bad"
		}
		var none *loaded
		l, _ := none.next(&header{}, fields, true)
		skipped := l.skips
		g.Expect(skipped.count).To(Equal(bad))
		g.Expect(len(skipped.names)).To(BeNumerically("<=", namedSkips))
		w := &Watcher{loaded: l, options: WatcherOptions{Installation: NewInstallation(testOwner, "")}}
		sent := w.ownHeartbeat()
		sent.Epoch = "loaded"
		received := replicasAmong([]heartbeat{*sent}, func(string) bool { return true })[0].skips
		g.Expect(received.equal(&skipped)).To(BeTrue())
		for id := range fields {
			g.Expect(received.contains(id)).To(BeTrue(), id)
		}
		g.Expect(received.contains("shop/other")).To(BeFalse(), "with %d skipped plans", bad)
	}
}

func TestReplicaOfAnEarlierReleaseNamesOnlySomeSkips(t *testing.T) {
	some := skips{count: 2, names: []string{"shop/a"}}
	NewWithT(t).Expect(some.contains("shop/other")).To(BeTrue(), "the plan may be the one without a name")
}

func TestBackoffIsBounded(t *testing.T) {
	g := NewWithT(t)
	g.Expect(backoff(0)).To(And(BeNumerically(">=", shortestRetry/2), BeNumerically("<=", shortestRetry))) // busy: a result, not a time that passes
	waits := map[time.Duration]bool{}
	for range 10 {
		waits[backoff(20)] = true
	}
	g.Expect(len(waits)).To(BeNumerically(">", 1), "replicas that lost Redis together return one by one")
	for failures := range 1000 {
		g.Expect(backoff(failures)).To(And(
			BeNumerically(">", 0), BeNumerically("<=", 500*time.Millisecond))) // busy: a result, not a time that passes
	}
}
