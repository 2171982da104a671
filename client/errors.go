// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Error is an answer of Weir that is not a decision: the check is invalid, names an unknown
// policy, or Weir is not ready.
type Error struct {
	// Status is the status of the response, such as 400.
	Status int
	// Code distinguishes errors with the same Status, such as "InvalidRequest" or
	// "UnknownPolicy"; empty if the answer does not come from Weir.
	Code string
	// Field is the path of the invalid part of the check, if that is the problem.
	Field string
	// Detail is for people; empty if the answer does not come from Weir.
	Detail string
}

// Error implements error.
func (e *Error) Error() string {
	parts := []string{fmt.Sprintf("weir: status %d", e.Status)}
	for _, part := range []string{e.Code, e.Field, e.Detail} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// newError returns the error of an answer.
func newError(status int, body []byte) error {
	var problem struct{ Code, Field, Detail string }
	if err := json.Unmarshal(body, &problem); err != nil {
		return &Error{Status: status} // of a proxy, or cut
	}
	return &Error{Status: status, Code: problem.Code, Field: problem.Field, Detail: problem.Detail}
}
