// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 validates RateLimitPolicies, RateLimitKeyGroups and RateLimitExceptions before the API server stores them.
//
// It rejects exactly what the controller would not accept, since both call
// internal/compile. An object that is valid but probably a mistake gets the warnings of
// internal/warning, which never reject it, and for which a review compares with other objects for 50 ms at most.
//
// Read the files in this order:
//
//	ratelimitpolicy_webhook.go  Validator: what is rejected, and the order of warnings
//	ratelimitkeygroup_webhook.go  the same for key groups
//	ratelimitexception_webhook.go the same for exceptions
//	requested_by.go             whose name an exception may have in RequestedByAnnotation
//	follow.go                   the matches of all policies and all exceptions, from a cache
//	over_budget.go              plans that are likely to have no room
//	reviews.go                  counts of what is answered
package v1alpha1
