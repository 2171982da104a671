// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine decides checks from a snapshot of plans.
//
// Reading order, in the order of a decision:
//
//	engine.go           Decide: find the policies, evaluate them, judge the reply, count
//	view.go             a snapshot of plans, prepared for deciding
//	policy.go           one plan of the view, made of
//	limits.go             its limits, with and without an override,
//	override.go           its overrides,
//	expression.go         its CEL expressions, compiled on first use,
//	key.go                the key of a request, and
//	requested.go          limits that a request brings along
//	find.go             which policies apply to a check
//	descriptorset.go    a set of the descriptors of a check
//	evaluation.go       from policies to one call of the store
//	judge.go            from the reply of the store to a decision
//	descriptorstate.go  the outcome of each descriptor, for Envoy
//	metrics.go, log.go, trace.go
//	                    how a decision is reported
//	state.go            the operators' calls: inspect, reset, block and unblock one key
//
// Files never use each other in a circle; test/layout checks that.
//
// The engine never writes plans. It knows neither where they come from nor which
// protocol a check arrived by. When the store cannot answer in time, the failure modes of
// the policies decide and the decision is marked as degraded.
package engine
