// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connect lets the commands of the plugin call Weir, and prints the answers.
//
// Read the files in this order:
//
//	connect.go  the flags of the connection, and the connection they select
//	cluster.go  the pod, the port-forward and the token in a cluster
//	client.go   the calls of Weir's HTTP API
//	output.go   states of keys as text
//	table.go    tables with a heading
//	text.go     keys for a terminal
package connect
