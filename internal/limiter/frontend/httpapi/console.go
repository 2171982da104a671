// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// Console is the web console of the operator port. Its handler serves pathConsole and everything
// below it.
type Console interface {
	http.Handler
	// NewCode returns the path, with a code, at which a browser begins a session of the token. The
	// code can be used once, for the returned time. claimedUser is the unverified name of the caller.
	NewCode(token, claimedUser string) (path string, valid time.Duration)
}

// serveConsole adds the paths of the console, and leads from / to it.
func (h *Handler) serveConsole() {
	h.routes["/"] = route{methods: []string{http.MethodGet, http.MethodHead}, serve: func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, pathConsole+"/", http.StatusSeeOther)
	}}
	h.routes[pathConsole] = route{serve: h.Console.ServeHTTP}
	if h.Authorizer != nil {
		h.routes[pathCode] = route{methods: []string{http.MethodPost}, serve: h.withToken(h.consoleCode)}
	}
}

// consoleCode serves POST /v1/console. Every valid token gets a code, since it has the rights of
// the calls that the console makes with it.
func (h *Handler) consoleCode(w http.ResponseWriter, r *http.Request, token string) error {
	if _, err := h.Authorizer.Authorize(r.Context(), token, VerbList, "", ""); err != nil && !errors.Is(err, ErrForbidden) {
		return &tokenError{err}
	}
	path, valid := h.Console.NewCode(token, claimedUser(r))
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, answer.TypeJSON, httptypes.ConsoleLink{Path: path, ExpiresInSeconds: int(valid / time.Second)})
	return nil
}

// claimedUser returns the name by which the caller wants to be logged, "" without one.
func claimedUser(r *http.Request) string {
	claimed := r.Header.Get(HeaderClaimedUser)
	return claimed[:min(len(claimed), maxClaimedUser)]
}
