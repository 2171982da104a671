// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package persistent has an immutable map. A change returns another map, which shares with the first one all that did not
// change, so it costs the same for any number of entries, and readers of the first one need no lock.
//
// Reading order:
//
//	map.go      Map
//	node.go       the tree that stores it
//	changes.go  how two maps differ
package persistent
