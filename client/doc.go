// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client asks Weir over HTTP whether a request may pass. It depends on the standard
// library only; package weirgrpc is the gRPC client.
//
// A check is never repeated: a repeated check would spend twice. Commits and renewals of a reservation,
// and charges, are safe to repeat, and are sent again while Weir does not answer.
//
// When Weir makes no decision, because it does not answer in time or rejects the check, the
// FailMode that the caller chose decides. There is no default.
//
// Reading order: client.go (options and Check), check.go (the question), decision.go (the answer),
// reserve.go (reservations and charges), resend.go (how they are sent again), errors.go (answers
// without a decision), failmode.go (the choice without one), middleware.go
// (net/http), outcome.go (requests whose cost is their status).
package client
