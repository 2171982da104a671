// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package publishertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func (c *contract) setAndDelete() {
	c.synced()
	c.must(c.set(c.Context(), planOf("login", 1)))
	c.expectGeneration("login", 1)
	held := c.r.Rollout("shop/login")
	c.must(c.set(c.Context(), planOf("login", 1)))
	if again := c.r.Rollout("shop/login"); again != held {
		c.Fatalf("an equal plan changes the rollout: %+v, %+v", held, again)
	}
	c.must(c.set(c.Context(), planOf("login", 2)))
	c.expectGeneration("login", 2)
	c.must(c.r.Delete(c.Context(), "shop/login"))
	c.expectGeneration("login", 0)
	c.must(c.r.Delete(c.Context(), "shop/login"))
}

func (c *contract) generations() {
	c.synced()
	c.must(c.set(c.Context(), planOf("login", 5)))
	if err := c.set(c.Context(), planOf("login", 4)); !errors.Is(err, plan.ErrOlderGeneration) {
		c.Fatalf("a lower generation: %v", err)
	}
	c.expectGeneration("login", 5)
	c.must(c.r.Set(c.Context(), planOf("login", 4), plan.SetOptions{Restored: true}))
	c.expectGeneration("login", 4)
	other := planOf("login", 1)
	other.UID = "another"
	c.must(c.set(c.Context(), other))
	c.expectGeneration("login", 1)
}

func (c *contract) endedContexts() {
	c.mustFail(c.set(c.ended(), planOf("login", 1)))
	c.r.MarkSynced(c.ended())
	c.must(c.set(c.Context(), planOf("search", 1)))
	c.expectGeneration("search", 0) // not synced
	c.synced()
	c.awaitGeneration("search", 1)
	c.expectGeneration("login", 0)
	c.mustFail(c.r.Delete(c.ended(), "shop/search"))
	c.mustFail(c.r.Sweep(c.ended(), none))
	c.must(c.set(c.Context(), planOf("login", 1)))
	c.expectGeneration("search", 1)
}

func (c *contract) lost() {
	for i := range 3 {
		c.must(c.set(c.Context(), planOf(fmt.Sprintf("p%d", i), 1)))
	}
	c.must(c.r.Delete(c.Context(), "shop/p0"))
	c.expectGeneration("p1", 0)
	c.r.MarkSynced(c.Context())
	c.awaitGeneration("p1", 1)
	c.awaitGeneration("p2", 1)
	c.expectGeneration("p0", 0)
}

// inherited begins a term with the plans set, live and orphan, of which it sets only the first.
func (c *contract) inherited() {
	c.synced()
	for _, name := range []string{"set", "live", "orphan"} {
		c.must(c.set(c.Context(), planOf(name, 1)))
	}
	c.r.BeginTerm()
	c.awaitGeneration("orphan", 1)
	c.must(c.set(c.Context(), planOf("set", 1)))
	c.r.MarkSynced(c.Context())
}

func (c *contract) sweep() {
	c.inherited()
	asked := map[string]bool{}
	c.must(c.r.Sweep(c.Context(), func(ctx context.Context, id string) (bool, error) {
		asked[id] = true
		if id == "shop/synced" {
			return false, c.set(ctx, planOf("synced", 2)) // the request may take long
		}
		return id == "shop/live", nil
	}))
	c.awaitGeneration("orphan", 0)
	c.expectGeneration("set", 1)
	c.expectGeneration("live", 1)
	c.expectGeneration("synced", 2)
	if asked["shop/set"] {
		c.Fatal("Sweep looked for a plan that was set")
	}
}

func (c *contract) failedSweep() {
	c.inherited()
	failed := errors.New("no answer")
	err := c.r.Sweep(c.Context(), func(_ context.Context, id string) (bool, error) {
		if id == "shop/live" {
			return false, failed
		}
		return false, nil
	})
	if !errors.Is(err, failed) {
		c.Fatalf("Sweep: %v", err)
	}
	c.must(c.set(c.Context(), planOf("set", 2)))
	c.expectGeneration("orphan", 1)
}

// fastest returns the time of the fastest of some calls, which must fail: a busy machine delays single calls.
func (c *contract) fastest(calls int, call func() error) time.Duration {
	fastest := time.Duration(math.MaxInt64)
	for range calls {
		began := time.Now() //nolint:forbidigo // the duration of a call
		c.mustFail(call())
		fastest = min(fastest, time.Since(began))
	}
	return fastest
}

func none(context.Context, string) (bool, error) { return false, nil }

func (c *contract) hung() {
	c.synced()
	c.must(c.set(c.Context(), planOf("gone", 1)))
	var timeout time.Duration // of the first call, which notices the outage
	c.announces("an outage", func() {
		c.r.Hang()
		timeout = c.fastest(1, func() error { return c.set(c.Context(), planOf("first", 1)) })
	})
	c.await("the rollout to report it", func() bool { return !c.r.Rollout("").Reachable })
	for name, call := range map[string]func() error{
		"Set":    func() error { return c.set(c.Context(), planOf("second", 1)) },
		"Delete": func() error { return c.r.Delete(c.Context(), "shop/gone") },
		"Sweep":  func() error { return c.r.Sweep(c.Context(), none) },
	} {
		if took := c.fastest(5, call); took >= timeout {
			c.Fatalf("each %s took at least %v, as the call that noticed the outage", name, took)
		}
	}
	c.r.Recover()
	c.awaitGeneration("first", 1)
	c.awaitGeneration("second", 1)
	c.awaitGeneration("gone", 0)
	c.must(c.set(c.Context(), planOf("last", 1)))
	c.expectGeneration("last", 1)
}

func (c *contract) lastKnown() {
	c.synced()
	c.must(c.set(c.Context(), planOf("edited", 1)))
	c.must(c.set(c.Context(), planOf("deleted", 1)))
	c.r.Hang()
	c.mustFail(c.set(c.Context(), planOf("edited", 2)))
	c.mustFail(c.r.Delete(c.Context(), "shop/deleted"))
	c.expectGeneration("edited", 1)
	c.expectGeneration("deleted", 1)
	c.r.Recover()
	c.awaitGeneration("edited", 2)
	c.awaitGeneration("deleted", 0)
}

func (c *contract) ownedElsewhere() {
	c.r.TakeOver()
	c.await("the other owner", func() bool { return c.r.Rollout("").OwnedElsewhere })
	if !c.r.Rollout("").Reachable {
		c.Fatal("the registry answers")
	}
	c.mustFail(c.set(c.Context(), planOf("login", 1)))
	c.expectGeneration("login", 0)
	c.r.GiveBack()
	c.r.MarkSynced(c.Context())
	c.awaitGeneration("login", 1)
}

func (c *contract) replicas() {
	c.synced()
	c.must(c.set(c.Context(), planOf("login", 1)))
	if r := c.r.Rollout("shop/login"); r.HasReplicas || r.AllReplicasCurrent {
		c.Fatalf("without a replica: %+v", r)
	}
	c.announces("a replica", c.addReplica)
	c.announces("an edit", func() { c.must(c.set(c.Context(), planOf("login", 2))) })
	c.await("the edit", c.isEnforced)
	c.announces("the end of a replica", func() {
		c.r.RemoveReplica()
		c.await("the end of the replica", func() bool { return !c.r.Rollout("").HasReplicas })
	})
}

// announces expects that Changes announces what happens.
func (c *contract) announces(what string, happens func()) {
	c.Helper()
	for len(c.r.Changes()) > 0 {
		<-c.r.Changes()
	}
	happens()
	select {
	case <-c.r.Changes():
	case <-time.After(10 * time.Second):
		c.Fatalf("Changes does not announce %s", what)
	}
}

// enforced begins with the plan login on a replica.
func (c *contract) enforced() {
	c.synced()
	c.must(c.set(c.Context(), planOf("login", 1)))
	c.addReplica()
}

func (c *contract) addReplica() {
	c.r.AddReplica()
	c.await("the replica", c.isEnforced)
}

// isEnforced reports whether every replica runs the plan login.
func (c *contract) isEnforced() bool {
	r := c.r.Rollout("shop/login")
	return r.HasReplicas && r.AllReplicasCurrent
}

// succession begins a term in which nothing has to be written.
func (c *contract) succession() {
	c.enforced()
	c.r.BeginTerm()
	c.must(c.set(c.Context(), planOf("synced", 1)))
	c.must(c.set(c.Context(), planOf("login", 1)))
	c.r.MarkSynced(c.Context())
	c.await("the next leader to know what the replica runs", c.isEnforced)
}

// expectWaiting expects that the registry holds that generation of the plan, 0 for none, while
// a later one waits for room.
func (c *contract) expectWaiting(name string, held int64) {
	c.Helper()
	if c.r.Rollout("shop/"+name).OverBudget == nil {
		c.Fatalf("the plan %s does not wait for room", name)
	}
	c.expectGeneration(name, held)
}

func (c *contract) overBudget() {
	var asked []string
	c.synced()
	c.must(c.set(c.Context(), planOf("login", 5)))
	c.must(c.set(c.Context(), planOf("gone", 5)))
	c.r.Fill()
	c.must(c.set(c.Context(), planOf("login", 6)))
	c.expectGeneration("login", 6) // it does not grow
	c.must(c.set(c.Context(), planOf("login", 10)))
	c.expectWaiting("login", 6)
	c.must(c.set(c.Context(), planOf("new", 1)))
	c.expectWaiting("new", 0)
	if err := c.set(c.Context(), planOf("login", 7)); !errors.Is(err, plan.ErrOlderGeneration) {
		c.Fatalf("a lower generation than the one that waits: %v", err)
	}
	c.must(c.r.Set(c.Context(), planOf("gone", 10), plan.SetOptions{DropLast: true}))
	c.expectWaiting("gone", 0)
	c.must(c.r.Delete(c.Context(), "shop/gone"))
	c.r.MakeRoom()
	c.await("a request for both plans", func() bool {
		asked = append(asked, c.r.Wanted()...)
		return len(asked) == 2
	})
	if slices.Sort(asked); !slices.Equal(asked, []string{"shop/login", "shop/new"}) {
		c.Fatalf("the publisher wants %v", asked)
	}
	c.expectGeneration("login", 6) // it has forgotten the rest
	c.must(c.set(c.Context(), planOf("login", 10)))
	c.must(c.set(c.Context(), planOf("new", 1)))
	c.awaitGeneration("login", 10)
	c.awaitGeneration("new", 1)
	if c.r.Rollout("shop/login").OverBudget != nil {
		c.Fatal("the plan waits in the registry")
	}
	c.expectGeneration("gone", 0)
}

func (c *contract) restored() {
	c.synced()
	c.r.Fill()
	c.must(c.r.Set(c.Context(), planOf("login", 1), plan.SetOptions{WasProgrammed: true}))
	c.expectGeneration("login", 1)
}

// unobserved begins a term while the registry hangs.
func (c *contract) unobserved() {
	c.enforced()
	c.r.Hang()
	c.r.BeginTerm()
	if r := c.r.Rollout("shop/login"); r.Reachable || r.HasReplicas {
		c.Fatalf("the term has not seen the registry yet: %+v", r)
	}
	c.mustFail(c.r.Sweep(c.Context(), none))
	c.r.Recover()
	c.awaitGeneration("login", 1)
	c.await("the replica in the term", c.isEnforced)
}

// undone changes the mode, which a user can do without a new generation, and changes it back.
func (c *contract) undone() {
	c.enforced()
	shadow := planOf("login", 1)
	shadow.Mode = plan.ModeShadow
	awaitMode := func(mode plan.Mode) {
		c.await("the mode "+string(mode), func() bool {
			now := c.r.Rollout("shop/login")
			return now.Reachable && now.Plan() != nil && now.Plan().Mode == mode && c.isEnforced()
		})
	}
	c.r.Hang()
	c.mustFail(c.set(c.Context(), planOf("first", 1)))
	c.mustFail(c.set(c.Context(), shadow))
	c.mustFail(c.set(c.Context(), planOf("login", 1)))
	c.r.Recover()
	awaitMode(plan.ModeEnforce)
	c.must(c.set(c.Context(), shadow))
	awaitMode(plan.ModeShadow)
}
