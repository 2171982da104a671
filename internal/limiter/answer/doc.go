// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package answer is what all doors say of a decision: the status, the headers and
// the body of an HTTP answer. A door of gRPC hands the same to its proxy, which
// says it to its client.
//
// Reading order: answer.go (the whole), verdict.go (a decision as JSON), problem.go
// (a refusal as JSON), ratelimit.go (the RateLimit headers).
package answer
