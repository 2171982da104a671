// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package store is what a store of limits decides, whatever it keeps their states in: Redis (package
// redisstore), this process (package memory) or the naive model of the tests (package reference).
//
// A Call is one decision about one or several pairs of a Policy and a Key. All of it is admitted, or
// nothing is spent. Calls and replies contain only numbers and names, no plans and no requests. The
// state of a limit has a name, which all stores share.
//
// Reading order:
//
//	algorithm.go     the table of algorithms
//	policy.go        Policy, one variant of a policy prepared for many calls
//	policy_facts.go    what stores ask of a policy
//	calendar.go        periods of a calendar in place of windows
//	escalation.go      blocks that become longer
//	key.go           the encoding of keys
//	names.go         the names of states
//	store.go         Store, which decides calls
//	call.go          Call
//	reply.go         Reply
//	hold.go          holds: estimates of reservations
//	block.go         the block of one key
//	substitution.go  calls that are decided for another key or limit
//	error.go         the causes of failed calls
package store
