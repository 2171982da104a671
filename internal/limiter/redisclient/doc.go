// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redisclient creates the Redis clients of a process from one URL.
//
// Reading order:
//
//	redisclient.go  the forms of a URL, and the options of every client
//	files.go        credentials and certificates from files
//	credentials.go  credentials that expire, from a command
//	conn.go         the open connections of a client
//	replies.go      HideReplies: errors without the texts of the server
//	readonly.go     closing connections to a server that became a replica
//	cluster.go      the client of a Redis Cluster, which never retries a command
//	sentinel.go     the client of a master that sentinels name
//	sentinels.go    finding and watching that master
//	server.go       the supported servers and versions
//	monitor.go      Monitor: whether Redis is available, and the connections
//	clock.go        the time of Redis
//	memory.go       how full Redis is
//	diagnosis.go    Diagnose: what an operator wants to know about Redis
package redisclient
