// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package engine decides checks from a snapshot of plans.
//
// Reading order, in the order of a decision. Each phase begins in a file of its own; the files below it are the stages
// that a policy or a check switches on.
//
//	engine.go           Engine, its options and the snapshot that it uses
//	prepared.go         a snapshot of plans, prepared for deciding
//	policy.go           a plan prepared for deciding
//	variant.go          the limits of a policy, with the numbers of one override, and a cache of derived ones
//	exception.go        other numbers of one key, until a time
//	derived.go          limits that a request brings along, and of a key whose overrides cannot be judged
//	keygroups.go        the groups of a key, by the key groups of its Namespace
//	addresslist.go      the addresses and networks among the keys of a key group
//	override.go         which override applies to a key
//	expression.go       CEL expressions, compiled on first use
//	key.go              the key of a request, and of a reservation
//	report.go           how the policies of a check are found and evaluated, for an explanation
//	decide.go           Decide: the phases of a decision, one after the other
//	evaluation.go       the memory of one decision
//	operations.go       a call to a store for several policies, with its reply
//	match.go            first phase: which policies apply
//	evalbudget.go         which policies have a budget for their expressions
//	charges.go          second phase: what the check charges, to which keys
//	addpolicy.go          the charges of one policy
//	capacity.go, turns.go more policies than one check may have
//	holds.go              reserves hold their estimates
//	cost.go, latecharge.go
//	                      checks of Envoy that commit, or spend whatever the limits admit
//	copiedid.go           reserves with the ID of an open reservation
//	trial.go              candidates: limits that are tried out
//	store.go            third phase: which limits admit the charges
//	flood.go              protection from floods of new keys
//	apart.go              decisions of each Namespace alone, after an error of the script
//	local.go              decisions in this process while the store does not answer
//	judge.go            fourth phase: from the reply of the store to a decision
//	finish.go           last phase: logs and counts the decision
//	withdraw.go           cancels the holds of a reserve whose caller has canceled
//	change.go           a call that is never denied
//	reservation.go      Reserve, Charge, Commit and Renew
//	metrics.go          how decisions are counted
//	holdmetrics.go      how reservations, charges and debts are counted
//	exceptionmetrics.go how many exceptions are in force
//	log.go              how decisions and changes are logged
//	trace.go            how decisions and changes are traced
//	observe.go          which keys are denied and blocked, and which policies checks apply to, for lists and reports
//	decisions.go        how much each policy has decided, and its sightings, for lists
//	state.go            inspect, reset, block and unblock one key, or unblock all
//	keyname.go          which key an operator means
//	explain.go          why a check is decided as it is
//	nearmiss.go         why other policies do not apply
//
// The metrics that count for each policy are in package series.
//
// There are no circular dependencies between these files; test/layout checks that.
//
// The engine never writes plans. It knows neither where they come from nor which
// protocol a check arrived by. When the store cannot answer in time, the failure modes of
// the policies decide and the decision is marked as degraded.
package engine
