// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// evaluateApart decides the policies of each Namespace by a call of their own, after the script has ended
// the whole call with an error and written nothing: an error that one Namespace causes must not concern
// the others.
//
//   - The policies of a Namespace whose call fails are unchecked.
//   - If a Namespace denies the check, the Namespaces decided before it have spent.
func (ev *evaluation) evaluateApart(ctx context.Context, evaluate evaluator) {
	parts := ev.indexesByNamespace()
	if len(parts) < 2 {
		return
	}
	reply := &store.Reply{Entries: make([]store.EntryReply, len(ev.charged))}
	before := slices.Clone(ev.unchecked)
	ev.uncheckedPlaces = nil // it does not index the sorted list
	var outage error         // it ends all further calls, too
	decided, denied := 0, ev.call.Denied
	for _, part := range parts {
		var partReply *store.Reply
		err := outage
		if err == nil {
			partReply, err = evaluate(ctx, ev.callOf(part, denied))
		}
		if err != nil {
			if causeOf(err) != store.CauseScript {
				outage = err
			}
			denied = ev.leavePartUnchecked(part, reply, causeOf(err)) || denied
			continue
		}
		decided++
		denied = ev.takePart(part, reply, partReply) || denied
	}
	if decided == 0 {
		ev.unchecked = before // the failure modes decide, as for any other error
		return
	}
	ev.reply, ev.err, ev.trials = reply, nil, nil
}

// leavePartUnchecked lets the failure modes of the charged policies with these indexes decide, and reports whether
// one denies the check.
func (ev *evaluation) leavePartUnchecked(part []int, reply *store.Reply, cause store.Cause) (denied bool) {
	for _, i := range part {
		cp := &ev.charged[i]
		u := uncheckedPolicy{policy: cp.policy, cause: cause, descriptors: cp.descriptors}
		ev.addUnchecked(u)
		reply.Entries[i].Unknown = true
		denied = denied || u.denies()
	}
	return denied
}

// takePart takes the replies of the charged policies with these indexes, and reports whether one denies the
// check.
func (ev *evaluation) takePart(part []int, reply, partReply *store.Reply) (denied bool) {
	for at, i := range part {
		reply.Entries[i] = partReply.Entries[at]
		denied = denied || ev.charged[i].enforces() && reply.Entries[i].Verdict != store.Admitted
	}
	return denied
}

// callOf returns a call of the entries with these indexes.
func (ev *evaluation) callOf(indexes []int, denied bool) *store.Call {
	entries := make([]store.Entry, len(indexes))
	for at, i := range indexes {
		entries[at] = ev.call.Entries[i]
	}
	call := ev.call.WithEntries(entries)
	call.Denied = denied
	return call
}

// indexesByNamespace returns the indexes of the charged policies of each Namespace.
func (ev *evaluation) indexesByNamespace() (parts [][]int) {
	places := map[string]int{}
	for i := range ev.charged {
		namespace := ev.charged[i].plan.Namespace
		place, found := places[namespace]
		if !found {
			place = len(parts)
			places[namespace] = place
			parts = append(parts, nil)
		}
		parts[place] = append(parts[place], i)
	}
	return parts
}
