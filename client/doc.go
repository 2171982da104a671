// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client asks Weir over HTTP whether a request may pass. It depends on the standard
// library only; package weirgrpc is the gRPC client.
//
// A check is never repeated: a repeated check would spend twice.
//
// When Weir makes no decision, because it does not answer in time or rejects the check, the
// FailMode that the caller chose decides. There is no default.
//
// Reading order: client.go (options and Check), check.go (the question), decision.go (the answer),
// errors.go (answers without a decision), failmode.go (the choice without one), middleware.go
// (net/http).
package client
