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

// check decides one request.
func (h *handler) check(w http.ResponseWriter, r *http.Request) {
	x := takeExchange()
	defer x.release()
	if _, err := x.in.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		refuseBody(w, err)
		return
	}
	check, err := decodeCheck(x.in.Bytes())
	if err != nil {
		h.refuse(w, r, check, err)
		return
	}
	decision, err := h.Engine.Decide(r.Context(), check)
	if err != nil {
		h.refuse(w, r, check, err)
		return
	}
	x.answer(w, decision)
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
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, check *limiter.Check, err error) {
	if invalid, ok := errors.AsType[*limiter.FieldError](err); ok {
		writeProblem(w, http.StatusBadRequest, invalidRequest(invalid))
		return
	}
	if unknown, ok := errors.AsType[*limiter.UnknownPolicyError](err); ok {
		field := "policies"
		if i := slices.Index(check.Policies, unknown.Policy); i >= 0 {
			field = fmt.Sprintf("policies[%d]", i)
		}
		writeProblem(w, http.StatusNotFound, problem{Code: codeUnknownPolicy, Field: field, Detail: unknown.Error()})
		return
	}
	switch {
	case errors.Is(err, limiter.ErrNotReady):
		writeProblem(w, http.StatusServiceUnavailable, notReady())
	case r.Context().Err() != nil:
		// Nobody may be listening any more, but a caller that only closed its
		// sending side still reads, and must not see a success.
		writeProblem(w, statusClientClosed, problem{Code: codeClientClosed, Detail: "The request was cancelled."})
	default:
		h.Logger.ErrorContext(r.Context(), "Check was not decided", "error", err)
		writeProblem(w, http.StatusInternalServerError, problem{Code: codeInternal, Detail: detailInternal})
	}
}
