// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
)

// CodeInvalidRequest is the code of a malformed request.
const CodeInvalidRequest = "InvalidRequest"

// Problem is a problem document (RFC 9457). Its type is "about:blank": the status is the
// kind of problem, and code distinguishes problems with the same status.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	// Field is the path of the invalid field of the request.
	Field string `json:"field,omitempty"`
	// RetryAfter is in whole seconds; 0 if waiting does not help.
	RetryAfter int64        `json:"retryAfter,omitempty"`
	Context    RetryContext `json:"context,omitzero"`
}

// RetryContext repeats RetryAfter in the place where generic error handlers of clients
// look for it.
type RetryContext struct {
	RetryAfter int64 `json:"retryAfter"`
}

// WithStatus sets the status and the members that follow from it and from RetryAfter.
func (p Problem) WithStatus(status int) Problem {
	p.Type, p.Status = "about:blank", status
	p.Title = cmp.Or(http.StatusText(status), "Client Closed Request")
	p.Context.RetryAfter = p.RetryAfter
	return p
}

// InvalidRequest returns the problem of a malformed request.
func InvalidRequest(e *limiter.FieldError) Problem {
	return Problem{
		Code:   CodeInvalidRequest,
		Field:  e.Field,
		Detail: cmp.Or(e.Field, "body") + ": " + e.Problem,
	}
}

// problemOf returns the problem of a denial.
func problemOf(d *limiter.Decision, status int) Problem {
	p := Problem{Code: cmp.Or(d.Denial.Code, "RateLimited")}
	switch status {
	case http.StatusForbidden: // waiting does not help
	case http.StatusServiceUnavailable:
		p.RetryAfter = max(1, RoundUp(d.RetryAfter, time.Second))
	default:
		p.RetryAfter = max(0, RoundUp(d.RetryAfter, time.Second))
	}
	p.Detail = sentence(cmp.Or(d.Denial.Message, http.StatusText(status)))
	switch p.RetryAfter {
	case 0:
	case 1:
		p.Detail += " Try again in 1 second."
	default:
		p.Detail += fmt.Sprintf(" Try again in %d seconds.", p.RetryAfter)
	}
	return p.WithStatus(status)
}

// sentence adds a full stop unless the text already ends like a sentence.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "!") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}
