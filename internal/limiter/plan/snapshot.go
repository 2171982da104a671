// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

// Snapshot is an immutable set of records with the index that finds the plans
// of a request. A replica replaces its snapshot as a whole.
type Snapshot struct {
	revision   int64
	plans      []*Plan // sorted by ID
	byID       map[string]*Plan
	index      index
	groups     []*KeyGroup  // sorted by ID
	exceptions []*Exception // sorted by ID
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
func NewSnapshotOf(revision int64, records []Record) *Snapshot {
	var plans []*Plan
	var groups []*KeyGroup
	var exceptions []*Exception
	for _, r := range records {
		switch r := r.(type) {
		case *Plan:
			plans = append(plans, r)
		case *KeyGroup:
			groups = append(groups, r)
		case *Exception:
			exceptions = append(exceptions, r)
		}
	}
	s := NewSnapshot(revision, plans)
	s.groups, _ = sortedByID(groups)
	s.exceptions, _ = sortedByID(exceptions)
	return s
}

// NewSnapshot returns a snapshot of plans alone at a revision of the registry. The plans must
// have distinct IDs and must not change afterwards.
func NewSnapshot(revision int64, plans []*Plan) *Snapshot {
	s := &Snapshot{revision: revision}
	s.plans, s.byID = sortedByID(plans)
	s.index = newIndex(s.plans)
	return s
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

// Plans returns all plans in the order of their IDs. The caller must not
// change the slice.
func (s *Snapshot) Plans() []*Plan { return s.plans }

// Groups returns all key groups in the order of their IDs. The caller must not change the slice.
func (s *Snapshot) Groups() []*KeyGroup { return s.groups }

// Exceptions returns all exceptions in the order of their IDs, ended ones too. The caller must not change the slice.
func (s *Snapshot) Exceptions() []*Exception { return s.exceptions }

// Lookup returns the plan with the ID, or nil.
func (s *Snapshot) Lookup(id string) *Plan { return s.byID[id] }

// Match returns the matches that hold for the normalized attributes, in the order of the
// plans' IDs. It ignores disabled plans.
func (s *Snapshot) Match(a *Attributes) []Found { return s.AppendMatches(nil, a) }

// AppendMatches appends to found what Match returns.
func (s *Snapshot) AppendMatches(found []Found, a *Attributes) []Found {
	return s.index.appendMatches(found, a)
}
