// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
)

// Codes of problems other than denials, which carry the code of the policy.
const (
	codeUnknownPolicy    = "UnknownPolicy"
	codeUnknownKey       = "UnknownKey"
	codeNotObserved      = "NotObserved"
	codeNotFound         = "NotFound"
	codeMethodNotAllowed = "MethodNotAllowed"
	codeBodyTooLarge     = "BodyTooLarge"
	codeClientClosed     = "ClientClosedRequest"
	codeNoCertificate    = "ClientCertificateRequired"
	codeMisdirected      = "MisdirectedRequest"
	codeNotReady         = "NotReady"
	codeDiffers          = "ReservationDiffers"
	codeEnded            = "ReservationEnded"
	codeStoreUnavailable = "StoreUnavailable"
	codeUnauthenticated  = "Unauthenticated"
	codeForbidden        = "Forbidden"
	codeUnavailable      = "Unavailable"
	codeInternal         = "InternalError"
)

const (
	detailInternal    = "The server could not handle the request."
	detailUnavailable = "Redis cannot be reached at the moment."
)

// failure is an error with its answer.
type failure struct {
	status  int
	problem answer.Problem
}

// Error implements error.
func (f *failure) Error() string { return f.problem.Detail }

// busy returns the failure of a call that is to be sent again in a second.
func busy(detail string) error {
	return &failure{http.StatusServiceUnavailable, answer.Problem{Code: codeUnavailable, Detail: detail, RetryAfter: 1}}
}

// notReady returns the problem of a server that has not loaded plans yet.
func notReady() answer.Problem {
	return answer.Problem{Code: codeNotReady, Detail: limiter.ErrNotReady.Error(), RetryAfter: 1}
}

// writeProblem sends the problem.
func writeProblem(w http.ResponseWriter, status int, p answer.Problem) {
	if p.RetryAfter > 0 { // else waiting does not help
		w.Header().Set(answer.HeaderRetryAfter, strconv.FormatInt(p.RetryAfter, 10))
	}
	writeJSON(w, status, answer.TypeProblem, p.WithStatus(status))
}

// writeJSON sends the value, which must be plain data so that encoding cannot fail.
func writeJSON(w http.ResponseWriter, status int, contentType string, value any) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) //nolint:errchkjson // see above
	write(w, status, contentType, out.Bytes())
}
