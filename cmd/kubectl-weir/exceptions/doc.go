// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exceptions has the commands about exceptions of one key: exceptions.go lists and prunes them, raise.go makes one.
package exceptions
