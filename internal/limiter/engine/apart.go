// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/weir-dev/weir/internal/limiter/script"
)

// evaluateApart decides the policies of each Namespace by a call of their own, after the script has ended
// the whole call with an error and written nothing: an error that one Namespace causes must not concern
// the others. The policies of a Namespace whose call fails are unchecked. If a Namespace denies the
// check, those decided before it have spent.
func (ev *evaluation) evaluateApart(ctx context.Context, evaluate func(context.Context, *script.Call) (*script.Reply, error)) {
	parts := ev.indexesByNamespace()
	if len(parts) < 2 {
		return
	}
	reply := &script.Reply{Entries: make([]script.EntryReply, len(ev.participants))}
	var unchecked []uncheckedPolicy
	var down error // an error that concerns all further calls
	decided, denied := 0, ev.call.Denied
	for _, part := range parts {
		partReply, err := (*script.Reply)(nil), down
		if down == nil {
			partReply, err = evaluate(ctx, ev.callOf(part, denied))
		}
		if err != nil {
			if causeOf(err) != script.CauseScript {
				down = err
			}
			for _, i := range part {
				pt := &ev.participants[i]
				u := uncheckedPolicy{policy: pt.policy, cause: causeOf(err), descriptors: pt.descriptors}
				unchecked, reply.Entries[i].Unknown = append(unchecked, u), true
				denied = denied || u.denies()
			}
			continue
		}
		decided++
		for at, i := range part {
			reply.Entries[i] = partReply.Entries[at]
			denied = denied || ev.participants[i].enforces() && reply.Entries[i].Verdict != script.Admitted
		}
	}
	if decided > 0 { // else the failure modes decide, as for any other error
		ev.reply, ev.err, ev.candidates = reply, nil, nil
		for _, u := range unchecked {
			ev.addUnchecked(u)
		}
	}
}

// callOf returns a call of the entries with these indexes.
func (ev *evaluation) callOf(indexes []int, denied bool) *script.Call {
	call := &script.Call{Denied: denied, Draw: ev.call.Draw, Uncached: ev.call.Uncached}
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
