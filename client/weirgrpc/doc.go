// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package weirgrpc asks Weir by Envoy's rate limit protocol, envoy.service.ratelimit.v3, and has
// interceptors for gRPC servers. Decisions, reasons and fail modes are defined in package client.
//
// Reading order: limiter.go (options and Check), interceptor.go (gRPC servers), outcome.go
// (calls whose cost is their status).
package weirgrpc
