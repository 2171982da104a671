// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package forwarded decides which forwarding headers are trusted, and finds the address of
// the client in them.
//
// It has two files: headers.go (the headers that proxies add) and proxies.go (the trusted
// proxies).
package forwarded
