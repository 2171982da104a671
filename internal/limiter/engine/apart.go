// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"

	"github.com/weir-dev/weir/internal/limiter/quota"
)

// evaluateApart decides the policies of each Namespace by a call of their own, after the script has ended
// the whole call with an error and written nothing: an error that one Namespace causes must not concern
// the others. The policies of a Namespace whose call fails are unchecked. If a Namespace denies the
// check, those decided before it have spent.
func (ev *evaluation) evaluateApart(ctx context.Context, evaluate evaluator) {
	parts := ev.indexesByNamespace()
	if len(parts) < 2 {
		return
	}
	reply := &quota.Reply{Entries: make([]quota.EntryReply, len(ev.participants))}
	before := slices.Clone(ev.unchecked)
	ev.uncheckedPlaces = nil
	var down error // an error that concerns all further calls
	decided, denied := 0, ev.call.Denied
	for _, part := range parts {
		partReply, err := (*quota.Reply)(nil), down
		if down == nil {
			partReply, err = evaluate(ctx, ev.callOf(part, denied))
		}
		if err != nil {
			if causeOf(err) != quota.CauseScript {
				down = err
			}
			denied = ev.leavePart(part, reply, causeOf(err)) || denied
			continue
		}
		decided++
		denied = ev.takePart(part, reply, partReply) || denied
	}
	if decided == 0 {
		ev.unchecked = before // the failure modes decide, as for any other error
		return
	}
	ev.reply, ev.err, ev.candidates = reply, nil, nil
}

// leavePart lets the failure modes of the participants with these indexes decide, and reports whether
// one denies the check.
func (ev *evaluation) leavePart(part []int, reply *quota.Reply, cause quota.Cause) (denied bool) {
	for _, i := range part {
		pt := &ev.participants[i]
		u := uncheckedPolicy{policy: pt.policy, cause: cause, descriptors: pt.descriptors}
		ev.addUnchecked(u)
		reply.Entries[i].Unknown = true
		denied = denied || u.denies()
	}
	return denied
}

// takePart takes the replies of the participants with these indexes, and reports whether one denies the
// check.
func (ev *evaluation) takePart(part []int, reply, partReply *quota.Reply) (denied bool) {
	for at, i := range part {
		reply.Entries[i] = partReply.Entries[at]
		denied = denied || ev.participants[i].enforces() && reply.Entries[i].Verdict != quota.Admitted
	}
	return denied
}

// callOf returns a call of the entries with these indexes.
func (ev *evaluation) callOf(indexes []int, denied bool) *quota.Call {
	call := &quota.Call{Denied: denied, Draw: ev.call.Draw, Uncached: ev.call.Uncached}
	for _, i := range indexes {
		call.Entries = append(call.Entries, ev.call.Entries[i])
	}
	return call
}

// indexesByNamespace returns the indexes of the participants of each Namespace.
func (ev *evaluation) indexesByNamespace() (parts [][]int) {
	places := map[string]int{}
	for i := range ev.participants {
		namespace := ev.participants[i].plan.Namespace
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
