// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// group is the entries of a call that one script call evaluates, in a Redis Cluster of one key.
type group struct {
	call     store.Call // with the entries of the group
	indexes  []int      // of the entries in the whole call
	key      store.Key  // of the entries in a Redis Cluster; else empty
	limits   int        // the number of the limits
	precheck result     // before anything is spent
	decided  result     // of the latest evaluation
}

// all returns the indexes of all entries of the call.
func (c *spread) all() []int {
	indexes := make([]int, len(c.settled))
	for i := range indexes {
		indexes[i] = i
	}
	return indexes
}

// divide sets the groups of the entries with these indexes.
func (c *spread) divide(indexes []int) {
	call := c.substitution.Call()
	c.groups = nil
	for _, i := range indexes {
		e, key := call.Entries[i], store.Key("")
		if c.isCluster {
			key = e.Key
		}
		limits := len(e.Policy.Limits())
		at := slices.IndexFunc(c.groups, func(g *group) bool { return g.key == key && g.limits+limits <= c.groupLimits })
		if at < 0 {
			at = len(c.groups)
			c.groups = append(c.groups, &group{call: store.Call{Denied: call.Denied, Draw: call.Draw}, key: key})
		}
		g := c.groups[at]
		g.call.Entries, g.indexes, g.limits = append(g.call.Entries, e), append(g.indexes, i), g.limits+limits
	}
}

// forEach calls f for every group: for groups of different keys at the same time, for groups of one key one after
// the other, so that Redis can serve other calls in between.
func (c *spread) forEach(f func(*group) error) error {
	var wait errgroup.Group
	started := map[store.Key]bool{}
	for _, first := range c.groups {
		if started[first.key] {
			continue
		}
		started[first.key] = true
		wait.Go(func() error {
			for _, g := range c.groups {
				if g.key != first.key {
					continue
				}
				if err := f(g); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return wait.Wait()
}

// any reports whether one of the groups has the property.
func (c *spread) any(property func(*group) bool) bool { return slices.ContainsFunc(c.groups, property) }

// undecided returns the indexes, in the whole call, of the entries that prevented a decision; nil if all are decided.
func (c *spread) undecided() (indexes []int) {
	for _, g := range c.groups {
		for _, i := range g.decided.undecided {
			indexes = append(indexes, g.indexes[i])
		}
	}
	return indexes
}

// denies reports whether an enforcing policy of the group denies the call.
func (g *group) denies() bool {
	for i, e := range g.call.Entries {
		if !e.Policy.IsShadow() && g.decided.Entries[i].Verdict != store.Admitted {
			return true
		}
	}
	return false
}

// repeats reports whether an earlier call has taken a hold of the group: the call repeats it.
func (g *group) repeats() bool {
	for i := range g.call.Entries {
		if takesHold(&g.call.Entries[i]) && g.decided.Entries[i].Hold == store.HoldFound {
			return true
		}
	}
	return false
}

// needsSpend reports whether an entry has something to write after the precheck.
//
//   - A Suppressed limit of a denied check is evaluated again also for its reply: the time after which it sheds
//     nothing.
//   - If the call repeats an earlier one, only the missing holds are taken.
func (g *group) needsSpend(repeated bool) bool {
	for i := range g.call.Entries {
		e := &g.call.Entries[i]
		switch {
		case repeated && (!takesHold(e) || g.precheck.Entries[i].Hold == store.HoldFound):
		case g.call.Denied && e.Policy.Observes(), !e.Peek && (!g.call.Denied || e.Policy.WritesDenials()):
			return true
		}
	}
	return false
}

// takesHold reports whether the entry may take a hold.
func takesHold(e *store.Entry) bool { return e.Policy.TakesHold(e.Action) }

// copyReply copies the reply of the group to the reply of the whole call.
func (g *group) copyReply(reply *store.Reply) {
	for i, at := range g.indexes {
		reply.Entries[at] = g.decided.Entries[i]
	}
}
