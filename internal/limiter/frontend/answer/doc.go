// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package answer encodes a decision as an HTTP response: status, headers and body. The
// HTTP frontends send it; the gRPC frontends hand it to their proxy, which sends it.
//
// Reading order: answer.go (the whole response), decision.go (a decision as JSON),
// problem.go (a problem document), json.go (how both are written), ratelimit.go (the
// RateLimit headers).
package answer
