// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package forwarded decides which forwarding headers are trusted, and finds the address of
// the client in them.
//
// Reading order: headers.go (the headers that proxies add), proxies.go (the trusted proxies),
// ignored.go (how headers of other peers are reported).
package forwarded
