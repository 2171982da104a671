// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grpcserver serves gRPC on one address, with TLS, health, reflection, bounds on what
// a client can hold, and a drain at the end.
//
// Reading order: server.go (the server), codec.go (messages with invalid UTF-8), conn.go (bounds of a
// connection) with conn_unix.go and conn_other.go, unfinished.go (what its unfinished requests hold) with frames.go,
// inflight.go (what its calls hold until their responses are sent), metadata.go (what calls hold until they end).
package grpcserver
