// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redisclient creates the Redis clients of a process from one URL.
//
// Reading order:
//
//	redisclient.go  the forms of a URL, and the options of every client
//	cluster.go      the client of a Redis Cluster, which never retries a command
//	files.go        credentials and certificates from files
package redisclient
