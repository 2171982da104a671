// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reject writes the rules for flags and configurations as a list, one line each, for errors.Join.
package reject

import (
	"fmt"
	"strings"
)

// If returns an error with the text if the input is invalid, else nil.
func If(invalid bool, format string, args ...any) error {
	if !invalid {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// Wrap puts the name of a flag or an object in front of the error. It returns nil for nil.
func Wrap(name string, err error) error { return If(err != nil, "%s: %w", name, err) }

// Name returns an error with the problems of a name, which functions such as validation.IsDNS1123Label find, nil for none.
func Name(flag, name string, problems []string) error {
	return If(len(problems) > 0, "%s %q: %s", flag, name, strings.Join(problems, "; "))
}
