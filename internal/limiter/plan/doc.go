// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan holds the compiled, immutable form of rate-limit policies. Package index finds the plans of a request.
//
// A plan is where the operator and the decisions of Weir meet: internal/compile builds it
// from a RateLimitPolicy, package engine decides by it. The package therefore imports only
// the standard library and package persistent, and depends on neither Kubernetes nor Redis. A plan never changes
// after it was built, so any number of goroutines may read it without a lock.
//
// Reading order:
//
//	record.go      what the registry carries: plans, and
//	keygroup.go      keys by the name of a group, and
//	keylist.go         and many keys in little memory
//	exception.go     other numbers for one key until a time
//	excepted.go      the limits of a plan with its numbers
//	plan.go        Plan, its bounds and its validation
//	match.go         which requests it applies to,
//	entrymatch.go      and the descriptors that it wants
//	target.go        the Gateways and routes that it names
//	key.go           the parts of its key
//	keyname.go       the key that an operator names
//	limit.go         its limits
//	reservation.go   whether its units may be reserved, and which hits of Envoy are charges
//	slices.go        whether replicas may take them in advance
//	denial.go        the response to a denied request
//	calendar.go      the hours, days, weeks and months of a time zone
//	override.go      other numbers, or another action, for some callers
//	candidate.go     numbers that are tried out
//	requested.go     a limit with the numbers that a descriptor requests
//	codec.go       the encoding of a record in the registry
//	values.go      the values of a query, of cookies and of lists in headers
//	headers.go     which headers are facts of a request
//	claims.go      the claims of a token
//	attributes.go  the facts of a request, and their normalization
//	budget.go      how many records may be published, and how large, by
//	weight.go        the memory that a record takes
//	rollout.go     how far a record has got, and the policies that are not there yet
//	sighting.go    whether checks apply to it
package plan
