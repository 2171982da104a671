// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limiter is the contract between the engine, which decides, and the doors,
// which translate one protocol each. It holds the types of questions and answers and
// their validation, and imports only package plan.
//
// Reading order: check.go (the question), decision.go (the answer), errors.go (why a
// check has no answer), door.go (what every door is given), state.go (one key as
// operators see it).
package limiter
