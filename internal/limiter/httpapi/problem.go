// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/answer"
)

// The codes of problems that are not a policy's refusal. Those carry the code
// of the policy.
const (
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

// notReady is the problem of a server that has no plans yet.
func notReady() answer.Problem {
	return answer.Problem{Code: codeNotReady, Detail: limiter.ErrNotReady.Error(), RetryAfter: 1}
}

// setRetryAfter tells the caller to wait; 0 seconds means that it is no use.
func setRetryAfter(w http.ResponseWriter, seconds int64) {
	if seconds > 0 {
		w.Header().Set(answer.HeaderRetryAfter, strconv.FormatInt(seconds, 10))
	}
}

// writeProblem answers with the problem.
func writeProblem(w http.ResponseWriter, status int, p answer.Problem) {
	setRetryAfter(w, p.RetryAfter)
	writeJSON(w, status, answer.TypeProblem, p.WithStatus(status))
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
