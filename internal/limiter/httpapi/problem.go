// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
)

// The codes of problems that are not a policy's refusal. Those carry the code
// of the policy.
const (
	codeInvalidRequest   = "InvalidRequest"
	codeUnknownPolicy    = "UnknownPolicy"
	codeNotFound         = "NotFound"
	codeMethodNotAllowed = "MethodNotAllowed"
	codeBodyTooLarge     = "BodyTooLarge"
	codeClientClosed     = "ClientClosedRequest"
	codeNoCertificate    = "ClientCertificateRequired"
	codeNotReady         = "NotReady"
	codeUnauthenticated  = "Unauthenticated"
	codeForbidden        = "Forbidden"
	codeUnavailable      = "Unavailable"
	codeInternal         = "InternalError"
)

const detailInternal = "The server could not handle the request."

// problem is a problem document (RFC 9457). Its type is "about:blank", which
// says that the status is the kind of problem; code tells kinds of one status
// apart.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"`
	// Field is the path of the part of the request that is wrong.
	Field string `json:"field,omitempty"`
	// RetryAfter is in whole seconds; 0 where waiting does not help.
	RetryAfter int64        `json:"retryAfter,omitempty"`
	Context    retryContext `json:"context,omitzero"`
}

// retryContext repeats the time to wait where generic error handlers of
// clients look for it.
type retryContext struct {
	RetryAfter int64 `json:"retryAfter"`
}

// about fills what follows from the status and from RetryAfter.
func (p problem) about(status int) problem {
	p.Type, p.Status = "about:blank", status
	p.Title = cmp.Or(http.StatusText(status), "Client Closed Request")
	p.Context.RetryAfter = p.RetryAfter
	return p
}

// invalidRequest is the problem of a request that breaks a rule.
func invalidRequest(e *limiter.FieldError) problem {
	return problem{
		Code:   codeInvalidRequest,
		Field:  e.Field,
		Detail: cmp.Or(e.Field, "body") + ": " + e.Problem,
	}
}

// notReady is the problem of a server that has no plans yet.
func notReady() problem {
	return problem{Code: codeNotReady, Detail: limiter.ErrNotReady.Error(), RetryAfter: 1}
}

// refused is the problem of a refused decision.
func refused(d *limiter.Decision, status int) problem {
	p := problem{Code: cmp.Or(d.Denial.Code, "RateLimited")}
	switch status {
	case http.StatusForbidden: // waiting does not help
	case http.StatusServiceUnavailable:
		p.RetryAfter = max(1, roundUp(d.RetryAfter, time.Second))
	default:
		p.RetryAfter = max(0, roundUp(d.RetryAfter, time.Second))
	}
	p.Detail = sentence(cmp.Or(d.Denial.Message, http.StatusText(status)))
	switch p.RetryAfter {
	case 0:
	case 1:
		p.Detail += " Try again in 1 second."
	default:
		p.Detail += fmt.Sprintf(" Try again in %d seconds.", p.RetryAfter)
	}
	return p.about(status)
}

// sentence ends the text with a full stop unless it ends as a sentence does.
func sentence(text string) string {
	text = strings.TrimSpace(text)
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "!") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// writeProblem answers with the problem.
func writeProblem(w http.ResponseWriter, status int, p problem) {
	setRetryAfter(w, p.RetryAfter)
	writeJSON(w, status, typeProblem, p.about(status))
}

// writeJSON answers with the value, which must be plain data: encoding it
// cannot fail.
func writeJSON(w http.ResponseWriter, status int, contentType string, value any) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) //nolint:errchkjson // see above
	write(w, status, contentType, out.Bytes())
}
