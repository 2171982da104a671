// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package warning finds valid policies, key groups and exceptions that are probably a mistake, for the webhook and the
// offline checker alike.
//
// Each warning begins with the path of the field that it is about. A warning of an unused
// override or an ineffective limit is given only where the policy alone proves it. What a tenant owns
// does not multiply: a Review examines each other object once, and stops after a bounded number of steps.
//
// Read the files in this order:
//
//	warning.go                 OfPlan: the warnings that a policy causes on its own
//	fitted_keys.go             keys of overrides that are not the key of a request as they are
//	unused_overrides.go        overrides whose callers an earlier one selects
//	ineffective_limits.go      limits that another limit makes ineffective
//	catch_all_matches.go       matches that hold for every request
//	unheld_matches.go          limits with Concurrency that checks do not count in
//	sliced_clients.go          slices for limits against abuse
//	unread_facts.go            keys and expressions of facts that no request of the policy has
//	expensive_expressions.go   expressions that take most of the time of a policy
//	review.go                  Review: the bounds of what is compared with other objects
//	match_index.go             MatchIndex: policies by their matches
//	crowded_matches.go         CrowdedMatches: more policies with the same requests than Weir evaluates
//	overlaps.go                Overlaps: policies with the same match
//	groups.go                  Groups, KeyGroup: groups without keys, unused groups, keys in two groups
//	exceptions.go              ExceptionIndex: exceptions by policy and key; ended, for the key of another one, or without effect
//	dropped_counters.go        DroppedCounters: counters that an edit resets
package warning
