// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exceptions has the commands about exceptions of one key: commands.go has all, raise.go makes one, exceptions.go lists and prunes them.
package exceptions
