// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limiter is the contract between the engine that decides and the doors
// through which it is asked: what a check is, what a decision is, and which errors
// there are. It holds types and their validation, and depends on plans alone.
//
// Reading order: check.go (the question), decision.go (the answer), errors.go (why
// there may be no answer), state.go (the state of one key, for operators).
package limiter
