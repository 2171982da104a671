// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package envoyrls is the frontend for Envoy's global rate limit filters. It implements
// envoy.service.ratelimit.v3.RateLimitService. A request is a domain and a list of
// descriptors. All policies that match a descriptor are decided in one atomic step, and the
// response holds a status for each descriptor.
//
// By default Envoy allows a request when this service returns an error. So nothing that a
// client chooses may cause an error: errors report a wrong configuration of the proxy, or a
// server without plans.
//
// The package decodes requests and encodes responses itself, because the generated messages
// need some 40 allocations for each call. Tests compare both with the generated code.
//
// Reading order: service.go (the call), request.go (from the bytes to a request, by the
// fields that reader.go reads), check.go (from the request to a check), entries.go (entries that reserve,
// commit, or name a Gateway or route), response.go (from the decision to the bytes of the response).
package envoyrls
