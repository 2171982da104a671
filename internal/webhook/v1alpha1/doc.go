// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 validates RateLimitPolicies before the API server stores them.
//
// It rejects exactly what the controller would not accept, since both call
// internal/compile. A policy that is valid but probably a mistake gets warnings,
// which never reject it. A warning of an unused override or an
// ineffective limit is given only where the policy alone proves it.
//
// Read the files in this order:
//
//	ratelimitpolicy_webhook.go  Validator: what is rejected, and the order of warnings
//	unused_overrides.go         overrides whose callers an earlier one selects
//	ineffective_limits.go       limits that another limit makes ineffective
//	catch_all_matches.go        matches that hold for every request
//	match_index.go              MatchIndex: policies by their matches
//	overlaps.go                 policies with the same match
//	reviews.go                  counts of what is answered
//	over_budget.go              plans that are likely to have no room
//	dropped_counters.go         counters that an edit resets
package v1alpha1
