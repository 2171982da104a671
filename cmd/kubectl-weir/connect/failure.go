// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

// FailedError is an error of a command whose arguments are valid. All other errors are of usage.
type FailedError struct{ cause error }

// Error implements error.
func (f *FailedError) Error() string { return f.cause.Error() }

// Unwrap returns the cause.
func (f *FailedError) Unwrap() error { return f.cause }

// AsFailed returns the error as a failure.
func AsFailed(cause error) error { return &FailedError{cause} }
