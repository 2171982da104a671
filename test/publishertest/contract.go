// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package publishertest

import (
	"context"
	"testing"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// publisher has the methods of controller.Publisher. It is declared here so that the tests of the registry
// link nothing of Kubernetes; publisher_test.go of the controller assigns one to the other.
type publisher interface {
	Set(ctx context.Context, r plan.Record, o plan.SetOptions) error
	Delete(ctx context.Context, id string) error
	Sweep(ctx context.Context, live func(ctx context.Context, id string) (bool, error)) error
	MarkSynced(ctx context.Context)
	Rollout(id string) plan.Rollout
	Changes() <-chan struct{}
	Wanted() []string
}

// Registry is a controller.Publisher that leads, and the means to put its registry into any state. A new
// one is empty and lost: it waits for MarkSynced.
type Registry interface {
	publisher

	// BeginTerm ends the term and begins the next.
	BeginTerm()
	// Hang makes the registry accept calls without an answer; Recover ends that.
	Hang()
	Recover()
	// TakeOver lets another installation own the registry, and begins a term; GiveBack ends
	// that.
	TakeOver()
	GiveBack()
	// Fill uses up the room for plans; MakeRoom ends that.
	Fill()
	MakeRoom()
	// AddReplica adds a live replica, which loads every plan; RemoveReplica removes it.
	AddReplica()
	RemoveReplica()
}

// Run tests a controller.Publisher. It calls start for each test.
func Run(t *testing.T, start func(tb testing.TB) Registry) {
	t.Helper()
	for name, test := range map[string]func(*contract){
		"Set publishes, and Delete removes":                         (*contract).setAndDelete,
		"a lower generation must be Restored":                       (*contract).generations,
		"a call whose context has ended has no effect":              (*contract).endedContexts,
		"a lost registry waits for MarkSynced":                      (*contract).lost,
		"Sweep deletes the plans that the term has not set":         (*contract).sweep,
		"Sweep deletes nothing when the API server does not answer": (*contract).failedSweep,
		"calls fail at once while the registry hangs":               (*contract).hung,
		"Rollout keeps the last known plan while it hangs":          (*contract).lastKnown,
		"nothing is written to the registry of another":             (*contract).ownedElsewhere,
		"a plan without room waits for it":                          (*contract).overBudget,
		"a plan that was programmed needs no room":                  (*contract).restored,
		"Rollout follows the replicas, and Changes announces it":    (*contract).replicas,
		"a term without a write knows what the replicas run":        (*contract).succession,
		"an edit that is undone while the registry hangs":           (*contract).undone,
		"a term knows nothing before it has seen the registry":      (*contract).unobserved,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&contract{TB: t, r: start(t)})
		})
	}
}

// contract is one test.
type contract struct {
	testing.TB
	r Registry
}

func (c *contract) synced() {
	c.Helper()
	c.r.MarkSynced(c.Context())
	c.await("the registry to be reachable", func() bool { return c.r.Rollout("").Reachable })
	c.must(c.set(c.Context(), planOf("synced", 1)))
	c.awaitGeneration("synced", 1)
}

// set is Set for a policy that is edited.
func (c *contract) set(ctx context.Context, p *plan.Plan) error {
	return c.r.Set(ctx, p, plan.SetOptions{})
}

func (c *contract) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *contract) mustFail(err error) {
	c.Helper()
	if err == nil {
		c.Fatal("the call succeeded")
	}
}

// generation returns the generation of the plan in the registry, or 0.
func (c *contract) generation(name string) int64 {
	if p := c.r.Rollout("shop/" + name).Plan(); p != nil {
		return p.Generation
	}
	return 0
}

func (c *contract) expectGeneration(name string, want int64) {
	c.Helper()
	if got := c.generation(name); got != want {
		c.Fatalf("the registry holds generation %d of %s, expected %d", got, name, want)
	}
}

func (c *contract) awaitGeneration(name string, want int64) {
	c.Helper()
	c.await("the plan "+name, func() bool { return c.generation(name) == want })
}

func (c *contract) await(what string, holds func() bool) {
	c.Helper()
	timeout := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-timeout:
			c.Fatalf("timed out waiting for %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// ended returns a context that has ended.
func (c *contract) ended() context.Context {
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	return ctx
}

// planOf returns a plan in the Namespace shop.
func planOf(name string, generation int64) *plan.Plan {
	return &plan.Plan{
		Namespace: "shop", Name: name, UID: "uid-" + name, Generation: generation,
		Mode: plan.ModeEnforce, OnMissingKey: plan.MissingKeyShare, Counting: plan.CountAdmitted,
		DenyWhen: plan.ThresholdExceeded, FailureMode: plan.FailOpen,
		Limits: []plan.Limit{{Name: "all", Algorithm: plan.FixedWindow, Threshold: generation, WindowMillis: 1000}},
		Denial: plan.Denial{Code: "RateLimited", Message: "Slow down."},
	}
}
