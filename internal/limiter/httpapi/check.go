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
type manner struct {
	answer.Manner
	// policiesField is what the list of policies is called in a request.
	policiesField string
}

// manner returns how most paths answer.
func (h *Handler) manner() manner {
	return manner{answer.Manner{LegacyHeaders: h.Door.LegacyHeaders}, "policies"}
}

// check decides one request.
func (h *Handler) check(w http.ResponseWriter, r *http.Request) {
	m := h.manner()
	body := takeBody()
	defer releaseBody(body)
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		refuseBody(w, err)
		return
	}
	check, err := decodeCheck(body.Bytes())
	if err != nil {
		h.refuse(w, r, check, m, err)
		return
	}
	h.decide(w, r, check, m)
}

// decide answers with what the engine says of the check.
func (h *Handler) decide(w http.ResponseWriter, r *http.Request, check *limiter.Check, m manner) {
	decision, err := h.Engine.Decide(r.Context(), check)
	if err != nil {
		h.refuse(w, r, check, m, err)
		return
	}
	writeDecision(w, decision, m.Manner)
}

// refuseBody answers a request whose body could not be read.
func refuseBody(w http.ResponseWriter, err error) {
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
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, check *limiter.Check, m manner, err error) {
	if invalid, ok := errors.AsType[*limiter.FieldError](err); ok {
		writeProblem(w, http.StatusBadRequest, answer.InvalidRequest(invalid))
		return
	}
	if unknown, ok := errors.AsType[*limiter.UnknownPolicyError](err); ok {
		field := m.policiesField
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
		refuseGone(w)
	default:
		h.Logger.ErrorContext(r.Context(), "Check was not decided", "error", err)
		writeProblem(w, http.StatusInternalServerError, answer.Problem{Code: codeInternal, Detail: detailInternal})
	}
}

// refuseGone answers a caller that hung up. Nobody may be listening any more,
// but a caller that only closed its sending side still reads, and must not see a
// success.
func refuseGone(w http.ResponseWriter) {
	writeProblem(w, statusClientClosed, answer.Problem{Code: codeClientClosed, Detail: "The request was cancelled."})
}
