// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package index finds the plans of a request. A Snapshot is an immutable set of records with an index of the matches of its
// plans; the next one shares with it all that did not change.
//
// Reading order:
//
//	snapshot.go   an immutable set of records, with
//	recordset.go  the records of each kind,
//	index.go      the index of the matches of plans, and
//	split.go      how the index divides them
//	nearmatch.go  matches that hold except for one field
package index
