// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/weir-dev/weir/internal/limiter"
)

// maxBody is the largest request body in bytes.
const maxBody = 64 << 10

// statusClientClosed answers a caller that hung up before the decision. It is
// the status proxies use for this, which net/http has no name for.
const statusClientClosed = 499

// manner is how a path answers.
type manner struct {
	// policiesField is what the list of policies is called in a request.
	policiesField string
	// denyStatus is the status of all refusals; 0 is one for each reason.
	denyStatus int
	// silent leaves out the body where the request may pass.
	silent bool
	// legacyHeaders adds X-RateLimit-Limit and so on.
	legacyHeaders bool
}

// manner returns how most paths answer.
func (h *handler) manner() manner {
	return manner{policiesField: "policies", legacyHeaders: h.LegacyHeaders}
}

// check decides one request.
func (h *handler) check(w http.ResponseWriter, r *http.Request) {
	m := h.manner()
	x := takeExchange()
	defer x.release()
	if _, err := x.in.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		refuseBody(w, err)
		return
	}
	check, err := decodeCheck(x.in.Bytes())
	if err != nil {
		h.refuse(w, r, check, m, err)
		return
	}
	h.decide(w, r, x, check, m)
}

// decide answers with what the engine says of the check.
func (h *handler) decide(w http.ResponseWriter, r *http.Request, x *exchange, check *limiter.Check, m manner) {
	decision, err := h.Engine.Decide(r.Context(), check)
	if err != nil {
		h.refuse(w, r, check, m, err)
		return
	}
	x.answer(w, decision, m)
}

// refuseBody answers a request whose body could not be read.
func refuseBody(w http.ResponseWriter, err error) {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		writeProblem(w, http.StatusRequestEntityTooLarge, problem{
			Code:   codeBodyTooLarge,
			Detail: fmt.Sprintf("The body is larger than %d bytes.", maxBody),
		})
		return
	}
	writeProblem(w, http.StatusBadRequest, problem{Code: codeInvalidRequest, Detail: "The body could not be read."})
}

// refuse answers a check that was not decided.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, check *limiter.Check, m manner, err error) {
	if invalid, ok := errors.AsType[*limiter.FieldError](err); ok {
		writeProblem(w, http.StatusBadRequest, invalidRequest(invalid))
		return
	}
	if unknown, ok := errors.AsType[*limiter.UnknownPolicyError](err); ok {
		field := m.policiesField
		if i := slices.Index(check.Policies, unknown.Policy); i >= 0 {
			field = fmt.Sprintf("%s[%d]", field, i)
		}
		writeProblem(w, http.StatusNotFound, problem{Code: codeUnknownPolicy, Field: field, Detail: unknown.Error()})
		return
	}
	switch {
	case errors.Is(err, limiter.ErrNotReady):
		writeProblem(w, http.StatusServiceUnavailable, notReady())
	case r.Context().Err() != nil:
		refuseGone(w)
	default:
		h.Logger.ErrorContext(r.Context(), "Check was not decided", "error", err)
		writeProblem(w, http.StatusInternalServerError, problem{Code: codeInternal, Detail: detailInternal})
	}
}

// refuseGone answers a caller that hung up. Nobody may be listening any more,
// but a caller that only closed its sending side still reads, and must not see a
// success.
func refuseGone(w http.ResponseWriter) {
	writeProblem(w, statusClientClosed, problem{Code: codeClientClosed, Detail: "The request was cancelled."})
}
