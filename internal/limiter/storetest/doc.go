// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storetest helps tests of stores of limits: calls.go has limits and calls.
package storetest
