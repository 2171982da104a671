// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/frontend/probe"
)

// frontendForwardAuth is the name of pathAuthorize in answers to probes.
const frontendForwardAuth = "forward-auth"

// Bounds of the texts in the body of POST /v1/probes.
const (
	maxNamespace  = 63
	maxMethod     = 32
	methodLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ-"
)

// probes serves POST /v1/probes: it issues a code for one probe.
func (h *Handler) probes(w http.ResponseWriter, r *http.Request, token string) error {
	var request httptypes.ProbeRequest
	if err := decodeBody(w, r, func(body []byte) (err error) {
		request, err = decodeProbeRequest(body)
		return err
	}); err != nil {
		return err
	}
	caller, err := h.authorizeVerb(r.Context(), token, VerbUnblock, request.Namespace+"/")
	if err != nil {
		return err
	}
	code, err := h.Prober.Issue(r.Context(), request)
	if err != nil {
		h.Logger.ErrorContext(r.Context(), "Failed to keep the code of a probe", "error", err)
		return busy("The code cannot be kept at the moment.")
	}
	h.Logger.InfoContext(r.Context(), "Issued the code of a probe", append(callerAttrs(r, caller), "namespace", request.Namespace)...)
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, answer.TypeJSON, &httptypes.ProbeCode{
		Header: probe.Header, Code: code, AnswerHeader: probe.AnswerHeader, ExpiresInSeconds: int(probe.Life / time.Second),
	})
	return nil
}

// decodeProbeRequest parses {"namespace", "method"}. It overwrites the body. Errors are *limiter.FieldError.
func decodeProbeRequest(body []byte) (request httptypes.ProbeRequest, err error) {
	err = readMembers(body, func(r *reader, name string) (err error) {
		switch name {
		case "namespace":
			if request.Namespace, err = r.text(); err == nil && (len(request.Namespace) > maxNamespace || strings.Contains(request.Namespace, "/")) {
				err = invalid("must be the name of a Namespace")
			}
		case "method":
			if request.Method, err = r.text(); err == nil && (len(request.Method) > maxMethod || strings.Trim(request.Method, methodLetters) != "") {
				err = invalid("must be a method of HTTP, in capital letters")
			}
		default:
			err = unknown()
		}
		return err
	})
	return request, err
}

// answerProbe reports whether it answered the request of a proxy as a probe. problem is why it would not be decided, or nil.
func (h *Handler) answerProbe(w http.ResponseWriter, r *http.Request, q *request, problem error) bool {
	codes := r.Header[probe.Header]
	if len(codes) == 0 {
		return false
	}
	report, ok := h.Prober.Answer(r.Context(), &probe.Request{
		Codes: codes, Frontend: frontendForwardAuth, Attributes: &q.check.Attributes, Policies: q.check.Policies, Problem: problem,
	})
	if !ok {
		return false
	}
	w.Header().Set(probe.AnswerHeader, report)
	w.Header().Set("Cache-Control", "no-store")
	write(w, http.StatusForbidden, answer.TypeJSON, []byte(report))
	return true
}
