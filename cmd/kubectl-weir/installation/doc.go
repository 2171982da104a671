// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package installation has the commands about an installation of Weir: its health, its version, the rights to use it, its console.
//
// Read the files in this order:
//
//	check.go          check: the report, from
//	checkcluster.go   the API server, with
//	checkpods.go      the pods, and
//	checkpolicies.go  warnings of policies
//	checkserver.go    a replica
//	version.go        version
//	access.go         access
//	console.go        console
package installation
