// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package publishertest tests that an implementation keeps the contract of
// controller.Publisher. The fake of the controller's specs and the registry on a real Redis
// both pass, so that the specs prove something about the real one.
//
// Read the files in this order:
//
//	contract.go  Run, and the states that a registry can be put into
//	cases.go     what holds in each state
package publishertest
