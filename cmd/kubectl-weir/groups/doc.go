// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package groups has the command groups: key groups from files.
//
// Read the files in this order:
//
//	groups.go        list, diff and import, from
//	groupsfile.go    the keys of a file, to
//	groupsplan.go    objects, in which a key is placed by its hash, with
//	groupsclient.go  the calls of the API server
//	groupsguard.go   the bound on removed keys
package groups
