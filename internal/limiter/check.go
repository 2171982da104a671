// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// MaxChain is the largest number of policies a check may name.
const MaxChain = 16

func (c *Check) validate() error {
	if len(c.Charges) == 0 && (c.Cost < 1 || c.Cost > plan.MaxThreshold) {
		return &FieldError{Field: "cost", Problem: costProblem}
	}
	if err := c.validateCharges(); err != nil {
		return err
	}
	if len(c.Policies) > MaxChain {
		return &FieldError{Field: "policies", Problem: fmt.Sprintf("names %d policies, at most %d", len(c.Policies), MaxChain)}
	}
	return validateKey(c.Key)
}

var costProblem = fmt.Sprintf("must be 1..%d", plan.MaxThreshold)

// validateKey checks a key that a caller gave; nil is none.
func validateKey(key []string) error {
	if key == nil {
		return nil
	}
	if len(key) == 0 || len(key) > plan.MaxKeyParts {
		return &FieldError{Field: "key", Problem: fmt.Sprintf("must have 1..%d parts", plan.MaxKeyParts)}
	}
	for i, part := range key {
		if problem := KeyProblem(part); problem != "" {
			return &FieldError{Field: fmt.Sprintf("key[%d]", i), Problem: problem}
		}
	}
	return nil
}

// KeyProblem says what is wrong with a part of a key that a caller gave; it is
// empty when nothing is.
func KeyProblem(part string) string {
	switch {
	case part == "":
		return "must not be empty"
	case !utf8.ValidString(part):
		return "must be valid UTF-8"
	case strings.ContainsFunc(part, unicode.IsControl):
		return "must not hold control characters"
	}
	return ""
}
