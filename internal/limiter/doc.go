// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limiter is the decision half of Weir: an Engine that answers checks
// from the plans it was given.
//
// The way of a check, which is also an order to read the package in:
//
//	decision.go    what is asked and what is answered
//	engine.go      Decide: find policies, evaluate, decide, count
//	view.go        a snapshot of plans, prepared for deciding
//	check.go       what callers may send; the key of a caller
//	override.go    which callers an override selects
//	evaluation.go  from policies to one script call
//	script         the call itself, inside Redis
//	verdict.go     from its reply to a decision
//	state.go       what operators ask and do about single keys
//
// The engine never writes plans, and knows neither where they come from nor
// who asks: the doors (httpapi and others) translate their protocol into
// checks. When Redis cannot answer in time, the failure modes of the policies
// decide, and the decision says so; the engine itself never fails.
package limiter
