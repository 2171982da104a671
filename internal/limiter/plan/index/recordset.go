// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"cmp"
	"iter"
	"slices"
	"sync"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/persistent"
)

// recordSet is an immutable set of records of one kind.
type recordSet[R comparableRecord] struct {
	byID   persistent.Map[string, R]
	sorted func() []R // by ID, sorted by the first call; nil without records
}

// comparableRecord is a pointer to a record.
type comparableRecord interface {
	comparable
	plan.Record
}

// ofKind returns the changed records of that kind; nil stands for a removed one.
func ofKind[R comparableRecord](kind plan.Kind, changed map[string]plan.Record) map[string]R {
	of := map[string]R{}
	for id, r := range changed {
		if plan.KindOf(id) == kind {
			of[id], _ = r.(R)
		}
	}
	return of
}

// with returns the set with the changed records; nil removes one.
func (s *recordSet[R]) with(changed map[string]R) recordSet[R] {
	if len(changed) == 0 {
		return *s
	}
	byID := s.byID
	var none R
	for id, r := range changed {
		if r == none {
			byID = byID.Without(id)
		} else {
			byID = byID.With(id, r)
		}
	}
	return recordSet[R]{byID: byID, sorted: sync.OnceValue(func() []R { return sortedByID(byID) })}
}

// list returns the records in the order of their IDs.
func (s *recordSet[R]) list() []R {
	if s.sorted == nil {
		return nil
	}
	return s.sorted()
}

func sortedByID[R comparableRecord](byID persistent.Map[string, R]) []R {
	type named struct {
		id     string
		record R
	}
	all := make([]named, 0, byID.Len())
	for id, r := range byID.All() {
		all = append(all, named{id, r})
	}
	slices.SortFunc(all, func(a, b named) int { return cmp.Compare(a.id, b.id) })
	records := make([]R, len(all))
	for i := range all {
		records[i] = all[i].record
	}
	return records
}

// changes returns the records that differ from the ones of another set, by ID.
func (s *recordSet[R]) changes(before *recordSet[R]) iter.Seq2[string, persistent.Change[R]] {
	return persistent.Changes(before.byID, s.byID)
}
