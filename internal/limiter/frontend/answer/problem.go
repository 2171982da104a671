// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"cmp"
	"net/http"
	"strconv"
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
	message := strings.TrimSpace(cmp.Or(d.Denial.Message, http.StatusText(status)))
	p.Detail = message + fullStop(message)
	if p.RetryAfter > 0 {
		p.Detail += " Try again in " + waitText(p.RetryAfter) + "."
	}
	return p.WithStatus(status)
}

// waitText returns a number of seconds for people: from ten minutes on in minutes, from two hours on in hours,
// from two days on in days, rounded up.
func waitText(seconds int64) string {
	const minute, hour, day = 60, 60 * 60, 24 * 60 * 60
	length, unit := int64(1), "second"
	switch {
	case seconds >= 2*day:
		length, unit = day, "day"
	case seconds >= 2*hour:
		length, unit = hour, "hour"
	case seconds > 10*minute:
		length, unit = minute, "minute"
	}
	count := (seconds + length - 1) / length
	if count != 1 {
		unit += "s"
	}
	return strconv.FormatInt(count, 10) + " " + unit
}

// fullStop returns a full stop, or nothing if the text already ends like a sentence.
func fullStop(text string) string {
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "!") || strings.HasSuffix(text, "?") {
		return ""
	}
	return "."
}

// appendTo appends the members to an object that is not closed yet.
func (p Problem) appendTo(json []byte) []byte {
	json = appendStringMember(json, "type", p.Type)
	json = appendStringMember(json, "title", p.Title)
	json = appendIntMember(json, "status", int64(p.Status))
	json = appendStringMember(json, "detail", p.Detail)
	json = appendStringMember(json, "code", p.Code)
	json = appendOptionalMember(json, "field", p.Field)
	if p.RetryAfter != 0 {
		json = appendIntMember(json, "retryAfter", p.RetryAfter)
	}
	if p.Context.RetryAfter != 0 {
		json = append(appendName(json, "context"), '{')
		json = append(appendIntMember(json, "retryAfter", p.Context.RetryAfter), '}')
	}
	return json
}
