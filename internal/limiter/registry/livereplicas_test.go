// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// The number of live replicas follows a leaving replica after three seconds of answers, a joining
// one at once, and does not fall during or right after an outage.
func TestLiveReplicas(t *testing.T) {
	g := NewWithT(t)
	w := &Watcher{}
	g.Expect(w.LiveReplicas()).To(Equal(1), "before the first heartbeat")
	now := time.Unix(1_900_000_000, 0)
	heartbeats := func(n, replicas int) {
		for range n {
			now = now.Add(period)
			w.live.record(now, replicas)
		}
	}
	heartbeats(5, 3)
	g.Expect(w.LiveReplicas()).To(Equal(3))
	heartbeats(1, 4)
	g.Expect(w.LiveReplicas()).To(Equal(4))
	heartbeats(3, 2)
	g.Expect(w.LiveReplicas()).To(Equal(4))
	heartbeats(1, 2)
	g.Expect(w.LiveReplicas()).To(Equal(2))
	now = now.Add(time.Hour) // an outage, after which Redis has lost its data
	heartbeats(1, 1)
	g.Expect(w.LiveReplicas()).To(Equal(2))
	heartbeats(1, 2)
	g.Expect(w.LiveReplicas()).To(Equal(2))
	heartbeats(20, 0)
	g.Expect(w.LiveReplicas()).To(Equal(1))
}
