// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// The paths that are served.
const (
	pathCheck    = "/v1/check"
	pathPolicies = "/v1/policies"
	pathHealth   = "/healthz"
	pathReady    = "/readyz"
)

// Engine decides checks.
type Engine interface {
	Decide(ctx context.Context, check *limiter.Check) (*limiter.Decision, error)
	// Snapshot returns the plans in force; nil until the first were loaded.
	Snapshot() *plan.Snapshot
}

// Options are what a handler needs. Only Engine is required.
type Options struct {
	Engine Engine
	// Logger hears of faults of the server, never of single decisions; nil is
	// slog.Default().
	Logger *slog.Logger
	// Healthy makes /healthz fail with its error; nil is always healthy.
	Healthy func() error
	// Replicas lists the live replicas; nil is none known.
	Replicas func() []Replica
}

// handler serves the paths above.
type handler struct {
	Options
	routes map[string]route
}

// route is what one path answers.
type route struct {
	methods []string
	serve   http.HandlerFunc
}

// New returns the handler of the HTTP door.
func New(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	h := &handler{Options: o}
	read := []string{http.MethodGet, http.MethodHead}
	h.routes = map[string]route{
		pathCheck:    {[]string{http.MethodPost}, h.check},
		pathPolicies: {read, h.policies},
		pathHealth:   {read, h.health},
		pathReady:    {read, h.ready},
	}
	return h
}

// ServeHTTP implements http.Handler. It compares paths as they are instead of
// using http.ServeMux, whose redirects and plain-text errors are no problem
// documents.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer h.survive(w, r)
	route, ok := h.routes[r.URL.Path]
	switch {
	case !ok:
		writeProblem(w, http.StatusNotFound, problem{Code: codeNotFound, Detail: "There is nothing at this path."})
	case !slices.Contains(route.methods, r.Method):
		allow := strings.Join(route.methods, ", ")
		w.Header().Set(headerAllow, allow)
		writeProblem(w, http.StatusMethodNotAllowed,
			problem{Code: codeMethodNotAllowed, Detail: "This path answers " + allow + "."})
	default:
		route.serve(w, r)
	}
}

// survive turns a panic into an answer, so that one request cannot end the
// connection it shares with others. Every handler writes its answer as its last
// step, so none has been started yet.
func (h *handler) survive(w http.ResponseWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	h.Logger.ErrorContext(r.Context(), "Handler panicked",
		"path", r.URL.Path, "cause", cause, "stack", string(debug.Stack()))
	writeProblem(w, http.StatusInternalServerError, problem{Code: codeInternal, Detail: detailInternal})
}

// health answers whether the process should go on living.
func (h *handler) health(w http.ResponseWriter, _ *http.Request) {
	if h.Healthy != nil {
		if err := h.Healthy(); err != nil {
			writeText(w, http.StatusServiceUnavailable, err.Error())
			return
		}
	}
	writeText(w, http.StatusOK, "ok")
}

// ready answers whether checks can be decided. That needs plans and nothing
// else: while Redis is away the failure modes decide.
func (h *handler) ready(w http.ResponseWriter, _ *http.Request) {
	if h.Engine.Snapshot() == nil {
		writeText(w, http.StatusServiceUnavailable, limiter.ErrNotReady.Error())
		return
	}
	writeText(w, http.StatusOK, "ok")
}
