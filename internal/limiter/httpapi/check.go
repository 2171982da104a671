// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/answer"
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
	return answerOptions{Options: answer.Options{LegacyHeaders: h.Door.LegacyHeaders}, policiesField: "policies"}
}

// check serves POST /v1/check.
func (h *Handler) check(w http.ResponseWriter, r *http.Request) {
	o := h.answerOptions()
	body := takeBody()
	defer releaseBody(body)
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		writeBodyError(w, err)
		return
	}
	check, err := decodeCheck(body.Bytes())
	if err != nil {
		h.writeCheckError(w, r, check, o, err)
		return
	}
	h.decide(w, r, check, o)
}

// decide answers the check.
func (h *Handler) decide(w http.ResponseWriter, r *http.Request, check *limiter.Check, o answerOptions) {
	decision, err := h.Engine.Decide(r.Context(), check)
	if err != nil {
		h.writeCheckError(w, r, check, o, err)
		return
	}
	writeDecision(w, decision, o.Options)
}

// writeBodyError answers a request whose body could not be read.
func writeBodyError(w http.ResponseWriter, err error) {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		writeProblem(w, http.StatusRequestEntityTooLarge, answer.Problem{
			Code:   codeBodyTooLarge,
			Detail: fmt.Sprintf("The body is larger than %d bytes.", maxBody),
		})
		return
	}
	writeProblem(w, http.StatusBadRequest, answer.Problem{Code: answer.CodeInvalidRequest, Detail: "The body could not be read."})
}

// writeCheckError answers a check that was not decided.
func (h *Handler) writeCheckError(w http.ResponseWriter, r *http.Request, check *limiter.Check, o answerOptions, err error) {
	if invalid, ok := errors.AsType[*limiter.FieldError](err); ok {
		writeProblem(w, http.StatusBadRequest, answer.InvalidRequest(invalid))
		return
	}
	if unknown, ok := errors.AsType[*limiter.UnknownPolicyError](err); ok {
		field := o.policiesField
		if i := slices.Index(check.Policies, unknown.Policy); i >= 0 {
			field = fmt.Sprintf("%s[%d]", field, i)
		}
		writeProblem(w, http.StatusNotFound, answer.Problem{Code: codeUnknownPolicy, Field: field, Detail: unknown.Error()})
		return
	}
	switch {
	case errors.Is(err, limiter.ErrNotReady):
		writeProblem(w, http.StatusServiceUnavailable, notReady())
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
