// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package envoyrls is the door for Envoy's global rate limit filters: the
// envoy.service.ratelimit.v3.RateLimitService. A request is a domain and
// descriptors; every policy that applies by one of them takes part, in one atomic
// step, and the answer says of each descriptor what became of it.
//
// Envoy lets a request pass when this service fails, unless told otherwise. So
// nothing that the client of a request chooses may end in an error here: errors
// are for what the configuration of the proxy got wrong, and for a server without
// plans.
//
// Reading order: service.go, request.go (what is asked), response.go (what is
// said).
package envoyrls
