// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"errors"
	"fmt"
)

// ErrNotReady is returned while no snapshot of plans has been loaded.
var ErrNotReady = errors.New("no plans have been loaded yet")

// FieldError is a check that cannot be decided because of what the caller
// sent. Field is the path within the check, as in "key[1]" or "cost".
type FieldError struct {
	Field   string
	Problem string
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// UnknownPolicyError is a check that names a policy there is no plan for.
type UnknownPolicyError struct{ Policy string }

// Error implements error.
func (e *UnknownPolicyError) Error() string { return fmt.Sprintf("there is no policy %q", e.Policy) }
