// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
)

// maxBody is the largest request body in bytes.
const maxBody = 64 << 10

// statusClientClosed is the status for a caller that cancelled its request, as nginx
// defined it.
const statusClientClosed = 499

// answerOptions select how a path answers.
type answerOptions struct {
	answer.Options
	// policiesField is the name of the list of policies in the request, for errors.
	policiesField string
}

// answerOptions returns the options of POST /v1/check.
func (h *Handler) answerOptions() answerOptions {
	return answerOptions{Options: answer.Options{LegacyHeaders: h.Frontend.LegacyHeaders}, policiesField: "policies"}
}

// check serves POST /v1/check.
func (h *Handler) check(w http.ResponseWriter, r *http.Request) {
	o := h.answerOptions()
	q := newRequest()
	if h.readRequest(w, r, q, (*request).decode) {
		h.answerCheck(w, r, q, o)
	}
}

// readRequest reads the body into the request, or answers with an error and releases the request.
func (h *Handler) readRequest(w http.ResponseWriter, r *http.Request, q *request, decode func(q *request, body []byte) error) bool {
	err := decodeBody(w, r, func(body []byte) error { return decode(q, body) })
	if err != nil {
		h.writeCheckError(w, r, q, h.answerOptions(), err)
		q.release()
	}
	return err == nil
}

// decodeBody reads and decodes the body.
func decodeBody(w http.ResponseWriter, r *http.Request, decode func(body []byte) error) error {
	body := takeBody()
	defer releaseBody(body)
	if _, err := body.ReadFrom(limitBody(w, r)); err != nil {
		return bodyFailure(err)
	}
	return decode(body.Bytes())
}

// limitBody returns the body, of which at most maxBody bytes can be read. The server reads no
// more than a declared length.
func limitBody(w http.ResponseWriter, r *http.Request) io.Reader {
	if r.ContentLength >= 0 && r.ContentLength <= maxBody {
		return r.Body
	}
	return http.MaxBytesReader(w, r.Body, maxBody)
}

// answerCheck answers the check.
func (h *Handler) answerCheck(w http.ResponseWriter, r *http.Request, q *request, o answerOptions) {
	decision, err := h.Engine.Decide(r.Context(), &q.check)
	h.writeOutcome(w, r, q, o, decision, err)
}

// writeOutcome answers with the decision, or with the error in its place.
func (h *Handler) writeOutcome(w http.ResponseWriter, r *http.Request, q *request, o answerOptions, d *limiter.Decision, err error) {
	if err != nil {
		h.writeCheckError(w, r, q, o, err)
		return
	}
	writeDecision(w, d, o.Options)
	// After an error of Redis, a call that is still in flight may read the request.
	if d.Degraded == "" {
		q.release()
	}
}

// bodyFailure is the failure of a body that could not be read.
func bodyFailure(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &failure{http.StatusRequestEntityTooLarge, answer.Problem{
			Code:   codeBodyTooLarge,
			Detail: fmt.Sprintf("The body is larger than %d bytes.", maxBody),
		}}
	}
	return &failure{http.StatusBadRequest, answer.Problem{Code: answer.CodeInvalidRequest, Detail: "The body could not be read."}}
}

// writeCheckError answers a check that was not decided.
func (h *Handler) writeCheckError(w http.ResponseWriter, r *http.Request, q *request, o answerOptions, err error) {
	if invalid, ok := errors.AsType[*limiter.FieldError](err); ok {
		writeProblem(w, http.StatusBadRequest, answer.InvalidRequest(invalid))
		return
	}
	if failed, ok := errors.AsType[*failure](err); ok {
		writeProblem(w, failed.status, failed.problem)
		return
	}
	if unknown, ok := errors.AsType[*limiter.UnknownPolicyError](err); ok {
		field := o.policiesField
		if i := slices.Index(q.check.Policies, unknown.Policy); i >= 0 {
			field = fmt.Sprintf("%s[%d]", field, i)
		}
		writeProblem(w, http.StatusNotFound, answer.Problem{Code: codeUnknownPolicy, Field: field, Detail: unknown.Error()})
		return
	}
	switch {
	case errors.Is(err, limiter.ErrNotReady):
		writeProblem(w, http.StatusServiceUnavailable, notReady())
	case errors.Is(err, limiter.ErrReservationDiffers):
		writeProblem(w, http.StatusConflict, answer.Problem{Code: codeDiffers, Field: "id", Detail: err.Error()})
	case errors.Is(err, limiter.ErrReservationEnded):
		writeProblem(w, http.StatusGone, answer.Problem{Code: codeEnded, Field: "reservation", Detail: err.Error()})
	case errors.Is(err, limiter.ErrStoreUnavailable): // the engine logs why
		writeProblem(w, http.StatusServiceUnavailable, answer.Problem{
			Code: codeStoreUnavailable, Detail: detailUnavailable + " Send the request again.", RetryAfter: 1,
		})
	case r.Context().Err() != nil:
		writeClientClosed(w)
	default:
		h.Logger.ErrorContext(r.Context(), "Failed to decide a check", "error", err)
		writeProblem(w, http.StatusInternalServerError, answer.Problem{Code: codeInternal, Detail: detailInternal})
	}
}

// writeClientClosed answers a caller that cancelled. A caller that closed only its sending
// side still reads the response, so it must not be a success.
func writeClientClosed(w http.ResponseWriter) {
	writeProblem(w, statusClientClosed, answer.Problem{Code: codeClientClosed, Detail: "The request was canceled."})
}
