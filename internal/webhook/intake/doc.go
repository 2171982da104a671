// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package intake receives the requests of the webhook. Any client that reaches the port can
// send one, so a request competes for the CPU only after it was read completely, and what it
// holds before that is bounded for each source address.
//
// Bounds:
//   - A connection carries one request, over HTTP/1.1, as the API server sends it.
//   - A source address has 8 connections that are read or judged. Its further connections
//     wait unread, up to 200, the most changes that an API server handles at a time. So a
//     burst from one API server is judged completely, 8 requests at a time.
//   - 1,024 connections are open together. Beyond that, the source with the most waiting
//     connections loses its newest one.
//   - Headers and body arrive within 2 s. A body has at most 4 MiB; all bodies in memory
//     together have 32 MiB, the bodies of one source a quarter of it.
//
// A source is one IP address, for IPv6 too: clusters give all nodes and pods addresses of one
// /64, so a wider source would let a pod use up the connections of the API server.
//
// Read the files in this order:
//
//	intake.go    Intake: reads a request into bounded memory, then passes it on
//	listener.go  which connections are served, by source address
//	judge.go     how many requests are judged at a time
package intake
