// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package index

import (
	"cmp"
	"iter"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/persistent"
)

// Snapshot is an immutable set of records with the index that finds the plans of a request. A replica
// replaces its snapshot as a whole; the next one shares with it all that did not change.
type Snapshot struct {
	revision   int64
	plans      recordSet[*plan.Plan]
	index      index
	groups     recordSet[*plan.KeyGroup]
	exceptions recordSet[*plan.Exception]
	skipped    []Skipped
}

// Skipped is a record that is not loaded.
type Skipped struct {
	ID string
	// Problem is why, as in "format 9 is newer than this release".
	Problem string
	// LastGood is true if an earlier version of the record is loaded instead.
	LastGood bool
}

// NewSnapshotOf returns a snapshot of records of all kinds at a revision of the registry. They must
// have distinct IDs and must not change afterwards.
func NewSnapshotOf(revision int64, records []plan.Record) *Snapshot {
	byID := make(map[string]plan.Record, len(records))
	for _, r := range records {
		byID[r.ID()] = r
	}
	return (*Snapshot)(nil).With(revision, byID)
}

// NewSnapshot returns a snapshot of plans alone at a revision of the registry. The plans must
// have distinct IDs and must not change afterwards.
func NewSnapshot(revision int64, plans []*plan.Plan) *Snapshot {
	records := make([]plan.Record, len(plans))
	for i, p := range plans {
		records[i] = p
	}
	return NewSnapshotOf(revision, records)
}

// With returns the snapshot at another revision, in which the records with these IDs differ; nil removes a record.
// The receiver may be nil, for a snapshot without records. The list of skipped records stays. It costs the same for any
// number of unchanged records.
func (s *Snapshot) With(revision int64, changed map[string]plan.Record) *Snapshot {
	s = cmp.Or(s, &Snapshot{})
	plans := ofKind[*plan.Plan](plan.KindPlan, changed)
	return &Snapshot{
		revision:   revision,
		skipped:    s.skipped,
		plans:      s.plans.with(plans),
		index:      s.index.with(&s.plans, plans),
		groups:     s.groups.with(ofKind[*plan.KeyGroup](plan.KindKeyGroup, changed)),
		exceptions: s.exceptions.with(ofKind[*plan.Exception](plan.KindException, changed)),
	}
}

// WithSkipped returns the snapshot with the list of records that were not loaded, for reports. It
// must be called before the snapshot is shared.
func (s *Snapshot) WithSkipped(skipped []Skipped) *Snapshot {
	s.skipped = skipped
	return s
}

// Skipped returns the records that were not loaded, in the order of their IDs.
func (s *Snapshot) Skipped() []Skipped { return s.skipped }

// Revision returns the revision of the registry that the snapshot contains.
func (s *Snapshot) Revision() int64 { return s.revision }

// Plans returns all plans in the order of their IDs. The caller must not change the slice. The first call for a
// snapshot with other plans than the one before sorts them.
func (s *Snapshot) Plans() []*plan.Plan { return s.plans.list() }

// Groups returns all key groups in the order of their IDs. The caller must not change the slice.
func (s *Snapshot) Groups() []*plan.KeyGroup { return s.groups.list() }

// Exceptions returns all exceptions in the order of their IDs, ended ones too. The caller must not change the slice.
func (s *Snapshot) Exceptions() []*plan.Exception { return s.exceptions.list() }

// Lookup returns the plan with the ID, or nil.
func (s *Snapshot) Lookup(id string) *plan.Plan { return s.plans.byID.Get(id) }

// Record returns the record with the ID, of any kind, or nil.
func (s *Snapshot) Record(id string) plan.Record {
	switch plan.KindOf(id) {
	case plan.KindKeyGroup:
		if g := s.groups.byID.Get(id); g != nil {
			return g
		}
	case plan.KindException:
		if e := s.exceptions.byID.Get(id); e != nil {
			return e
		}
	case plan.KindPlan:
		if p := s.Lookup(id); p != nil {
			return p
		}
	}
	return nil
}

// ChangedPlans returns the plans that differ from the ones of another snapshot, which may be nil, by ID. It costs the same
// for any number of equal plans if one of the snapshots was made from the other.
func (s *Snapshot) ChangedPlans(before *Snapshot) iter.Seq2[string, persistent.Change[*plan.Plan]] {
	return s.plans.changes(&cmp.Or(before, &Snapshot{}).plans)
}

// ChangedExceptions is ChangedPlans for exceptions.
func (s *Snapshot) ChangedExceptions(before *Snapshot) iter.Seq2[string, persistent.Change[*plan.Exception]] {
	return s.exceptions.changes(&cmp.Or(before, &Snapshot{}).exceptions)
}

// HasGroupsOf reports whether the snapshot has the same key groups as another one.
func (s *Snapshot) HasGroupsOf(other *Snapshot) bool {
	for range s.groups.changes(&other.groups) {
		return false
	}
	return true
}

// Match returns the matches that hold for the normalized attributes, in the order of the
// plans' IDs. It ignores disabled plans.
func (s *Snapshot) Match(a *plan.Attributes) []plan.Found { return s.AppendMatches(nil, a) }

// AppendMatches appends to found what Match returns.
func (s *Snapshot) AppendMatches(found []plan.Found, a *plan.Attributes) []plan.Found {
	return s.index.appendMatches(found, a)
}
