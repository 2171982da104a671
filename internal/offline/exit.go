// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// The exit codes of the commands.
const (
	exitFindings = 1
	exitUsage    = 2
	exitPartial  = 3
)

// ExitError is an error with the exit code of the program.
type ExitError struct {
	Code int
	// Err is printed; nil if the output of the command contains everything.
	Err error
}

// Error implements error.
func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the printed error.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitWith returns the error with the exit code, unless it has one or is nil.
func ExitWith(code int, err error) error {
	if _, has := errors.AsType[*ExitError](err); has || err == nil {
		return err
	}
	return &ExitError{Code: code, Err: err}
}

// usageErrors gives errors of arguments and flags the exit code of wrong usage.
func usageErrors(cmd *cobra.Command) *cobra.Command {
	validate := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error { return ExitWith(exitUsage, validate(cmd, args)) }
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return ExitWith(exitUsage, err) })
	return cmd
}
