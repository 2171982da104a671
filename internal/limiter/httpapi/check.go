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

// statusClientClosed answers a caller that hung up before the decision. It is
// the status proxies use for this, which net/http has no name for.
const statusClientClosed = 499

// manner is how a path answers.
type answerOptions struct {
	answer.Options
	// policiesField is what the list of policies is called in a request.
	policiesField string
}

// manner returns how most paths answer.
func (h *Handler) answerOptions() answerOptions {
	return answerOptions{Options: answer.Options{LegacyHeaders: h.Door.LegacyHeaders}, policiesField: "policies"}
}

// check decides one request.
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

// decide answers with what the engine says of the check.
func (h *Handler) decide(w http.ResponseWriter, r *http.Request, check *limiter.Check, o answerOptions) {
	decision, err := h.Engine.Decide(r.Context(), check)
	if err != nil {
		h.writeCheckError(w, r, check, o, err)
		return
	}
	writeDecision(w, decision, o.Options)
}

// refuseBody answers a request whose body could not be read.
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

// refuse answers a check that was not decided.
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
		h.Logger.ErrorContext(r.Context(), "Check was not decided", "error", err)
		writeProblem(w, http.StatusInternalServerError, answer.Problem{Code: codeInternal, Detail: detailInternal})
	}
}

// refuseGone answers a caller that hung up. Nobody may be listening any more,
// but a caller that only closed its sending side still reads, and must not see a
// success.
func writeClientClosed(w http.ResponseWriter) {
	writeProblem(w, statusClientClosed, answer.Problem{Code: codeClientClosed, Detail: "The request was cancelled."})
}
