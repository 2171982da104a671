// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/publishertest"
)

// TestWriterFulfillsTheContract runs on a real Redis, which SIGSTOP makes hang.
func TestWriterFulfillsTheContract(t *testing.T) {
	publishertest.Run(t, func(tb testing.TB) publishertest.Registry {
		tb.Helper()
		c := newCluster(tb)
		return &faultyRegistry{leader: c.lead(testOwner), cluster: c}
	})
}

// faultyRegistry puts the registry on a real Redis into the states of the contract.
type faultyRegistry struct {
	*leader
	cluster *cluster
	other   *leader
	replica *replica
}

// BeginTerm leads with the same Writer, as a process does that leads again.
func (r *faultyRegistry) BeginTerm() {
	r.end(r.leader)
	r.leader = r.cluster.leadBy(r.Writer)
}

func (r *faultyRegistry) Hang() { r.cluster.redis.Pause() }

func (r *faultyRegistry) Recover() { r.cluster.redis.Resume() }

func (r *faultyRegistry) TakeOver() {
	r.end(r.leader)
	r.other = r.cluster.lead("another/weir")
	r.other.MarkSynced(r.cluster.tb.Context())
	r.cluster.Eventually(r.other.Err).Should(Succeed())
	r.leader = r.cluster.lead(testOwner)
}

func (r *faultyRegistry) GiveBack() { r.end(r.other) }

// Fill lowers the budget to what is used; MakeRoom lifts it.
func (r *faultyRegistry) Fill() { r.setBudget(func(used int) int { return used }) }

func (r *faultyRegistry) MakeRoom() { r.setBudget(func(int) int { return 0 }) }

func (r *faultyRegistry) setBudget(bytes func(used int) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.options.Budgets.Total.Bytes = bytes(r.usage.total.Bytes)
	r.usage.released = true
	notify(r.wake)
}

func (r *faultyRegistry) AddReplica() { r.replica = r.cluster.watch("a") }

func (r *faultyRegistry) RemoveReplica() {
	r.replica.stop()
	<-r.replica.done
}

func (r *faultyRegistry) end(l *leader) {
	l.stop()
	<-l.done
}
