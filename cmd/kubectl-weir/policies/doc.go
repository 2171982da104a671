// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies has the commands about policies: how they decide, and what an edit changes.
//
// Read the files in this order:
//
//	explain.go      explain
//	explanation.go  the answer of explain as tables
//	shadow.go       shadow and enforce
//	diff.go         diff, on top of
//	diffobjects.go  key groups, exceptions and the objects of the cluster
//	difffields.go   the fields that differ
//	diffkeys.go     the listed keys that would be over a limit
package policies
