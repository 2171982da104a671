// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"errors"
	"fmt"
)

// ErrNotReady is returned until the first snapshot of plans is loaded.
var ErrNotReady = errors.New("no plans have been loaded yet")

// FieldError reports an invalid field of a request.
type FieldError struct {
	Field   string // path within the request, as in "key[1]"
	Problem string // why the value is invalid, as in "must not be empty"
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// UnknownPolicyError reports a check that names a policy without a plan.
type UnknownPolicyError struct{ Policy string }

// Error implements error.
func (e *UnknownPolicyError) Error() string {
	return fmt.Sprintf("policy %q has no plan: it does not exist or is not accepted", e.Policy)
}

// UnknownKeyError reports a key hash that stands for no listed key of the policy.
type UnknownKeyError struct{ Policy, Hash string }

// Error implements error.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("no listed key of policy %q has the hash %q: the key may have left the list since; name its parts instead", e.Policy, e.Hash)
}
