// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/forwarded"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/frontend/probe"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// Paths.
const (
	pathCheck     = "/v1/check"
	pathReserve   = "/v1/reserve"
	pathCommit    = "/v1/commit"
	pathRenew     = "/v1/renew"
	pathCharge    = "/v1/charge"
	pathAuthorize = "/v1/authorize" // and everything below it
	pathPolicies  = "/v1/policies"
	pathState     = "/v1/state"
	pathReset     = "/v1/reset"
	pathBlock     = "/v1/block"
	pathUnblock   = "/v1/unblock"
	pathExplain   = "/v1/explain"
	pathProcess   = "/v1/process"
	pathPlan      = "/v1/plan"
	pathCode      = "/v1/console"
	pathBlocks    = "/v1/blocks"
	pathTop       = "/v1/top"
	pathRates     = "/v1/rates"
	pathKeys      = "/v1/keys"
	pathProbes    = "/v1/probes"
	pathTargets   = "/v1/targets"
	pathHealth    = "/healthz"
	pathReady     = "/readyz"
	pathOpenAPI   = "/openapi.yaml"
	pathConsole   = "/console" // and everything below it
)

// Engine decides checks, holds units for reservations and lists the plans in force.
type Engine interface {
	limiter.Decider
	limiter.Reserver
	// Snapshot returns the plans in force, or nil before the first are loaded.
	Snapshot() *index.Snapshot
}

// Options configure a Handler. Only Engine is required.
type Options struct {
	Engine Engine
	// State and Authorizer serve the state calls. Their paths exist only if both are set.
	State      State
	Authorizer Authorizer
	// Blocks and Observer serve the lists of keys; both are nil if nothing is observed. They have the
	// paths of the state calls.
	Blocks   limiter.Blocks
	Observer limiter.Observer
	// Traffic serves the list of targets; may be nil.
	Traffic Traffic
	// Prober issues the codes of probes and answers them; nil turns them off. It has a path as the state calls have.
	Prober *probe.Prober
	// Logger receives faults of the server and changes by operators, never decisions; nil
	// is slog.Default().
	Logger *slog.Logger
	// Healthy returns why /healthz should fail, or nil. A nil function is always healthy.
	Healthy func() error
	// Ready returns why /readyz should fail although plans are loaded, or nil. A nil function
	// never fails it.
	Ready func() error
	// Version is the version of the program; may be empty.
	Version string
	// Replicas lists the live replicas; may be nil.
	Replicas func(context.Context) []httptypes.Replica
	// Unready returns the policies that are not Ready, nil if there is no leader that knows; may
	// be nil.
	Unready func() *plan.Unready
	// Process serves GET /v1/process, on the operator port only; nil turns it off.
	Process ProcessFunc
	// Console is the web console, on the operator port only; nil turns it off.
	Console  Console
	Frontend limiter.FrontendOptions
	// Ignored reports forwarding headers of untrusted peers; may be nil.
	Ignored *forwarded.Ignored
	// ClientCertificates rejects requests without a verified client certificate, except
	// for probes.
	ClientCertificates bool
}

// Handler serves the paths above.
type Handler struct {
	Options
	proxies forwarded.Proxies
	// forwarding are the headers that only a trusted proxy may set.
	forwarding []string
	routes     map[string]route
	// acceptsHost reports whether the Host header may be served; nil serves all.
	acceptsHost func(*http.Request) bool
	isOperator  bool // the handler of the operator port
	encoded     policyEncoder
	draining    atomic.Bool
	describing  sync.Mutex // held while Process runs
	sighting    sync.Mutex // held while Traffic is read
}

// route serves one path.
type route struct {
	methods []string // nil allows every method
	serve   http.HandlerFunc
	probe   bool // served without a client certificate
}

// New returns the handler of the HTTP frontend.
func New(o Options) *Handler {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	o.Frontend.PrincipalHeader = http.CanonicalHeaderKey(o.Frontend.PrincipalHeader)
	h := &Handler{
		Options: o, proxies: forwarded.NewProxies(o.Frontend.TrustedProxies),
		forwarding: append(slices.Clip(forwarded.TargetHeaders), o.Frontend.PrincipalHeader),
		encoded:    policyEncoder{now: time.Now}, //nolint:forbidigo // the default of the injected clock
	}
	read, write := []string{http.MethodGet, http.MethodHead}, []string{http.MethodPost}
	h.routes = map[string]route{
		pathCheck:     {methods: write, serve: h.check},
		pathReserve:   {methods: write, serve: h.reserve},
		pathCommit:    {methods: write, serve: changing(h, decodeCommit, Engine.Commit, committedOf)},
		pathRenew:     {methods: write, serve: changing(h, decodeRenew, Engine.Renew, renewedOf)},
		pathCharge:    {methods: write, serve: changing(h, (*request).decodeCharge, Engine.Charge, chargedOf)},
		pathAuthorize: {serve: h.authorize},
		pathPolicies:  {methods: read, serve: h.policies},
		pathHealth:    {methods: read, serve: h.health, probe: true},
		pathReady:     {methods: read, serve: h.ready, probe: true},
		pathOpenAPI:   {methods: read, serve: h.openAPI},
	}
	if h.State != nil && h.Authorizer != nil {
		var unobserved, unreported *failure // why lists are unavailable
		if h.Blocks == nil || h.Observer == nil {
			unobserved = errNotObserved
		}
		if h.Traffic == nil {
			unreported = errNoTraffic
		}
		h.routes[pathState] = route{methods: read, serve: h.withToken(h.inspect)}
		h.routes[pathReset] = route{methods: write, serve: h.change(VerbReset, "Reset a key", h.reset)}
		h.routes[pathBlock] = route{methods: write, serve: h.change(VerbBlock, "Blocked a key", h.block)}
		h.routes[pathUnblock] = route{methods: write, serve: h.change(VerbUnblock, "Unblocked a key", h.unblock)}
		h.routes[pathExplain] = route{methods: write, serve: h.withToken(h.explain)}
		h.routes[pathPlan] = route{methods: read, serve: h.withToken(h.plan)}
		h.routes[pathBlocks] = route{methods: read, serve: h.list(unobserved, h.blocks, "limit")}
		h.routes[pathTop] = route{methods: read, serve: h.list(unobserved, h.top)}
		h.routes[pathRates] = route{methods: read, serve: h.list(unobserved, h.rates)}
		h.routes[pathKeys] = route{methods: read, serve: h.list(unobserved, h.keys, "value", "part")}
		h.routes[pathTargets] = route{methods: read, serve: h.list(unreported, h.targets)}
		if h.Prober != nil {
			h.routes[pathProbes] = route{methods: write, serve: h.withToken(h.probes)}
		}
	}
	return h
}

// ServeHTTP implements http.Handler. It does not use http.ServeMux, which redirects unclean
// paths and answers errors in plain text instead of problem documents.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer h.recoverPanic(w, r)
	route, ok := h.routes[RoutePath(r)]
	switch {
	case h.acceptsHost != nil && !h.acceptsHost(r):
		writeProblem(w, http.StatusMisdirectedRequest, answer.Problem{
			Code: codeMisdirected, Detail: "The Host header must be a loopback name or address, or the address of this port.",
		})
	case h.ClientCertificates && !route.probe && !hasCertificate(r):
		writeProblem(w, http.StatusForbidden, answer.Problem{Code: codeNoCertificate, Detail: "This path requires a client certificate."})
	case !ok:
		writeProblem(w, http.StatusNotFound, answer.Problem{Code: codeNotFound, Detail: "This path does not exist."})
	case route.methods != nil && !slices.Contains(route.methods, r.Method):
		allow := strings.Join(route.methods, ", ")
		w.Header().Set(headerAllow, allow)
		writeProblem(w, http.StatusMethodNotAllowed,
			answer.Problem{Code: codeMethodNotAllowed, Detail: "This path supports " + allow + "."})
	default:
		route.serve(w, r)
	}
}

// spanPaths are the paths in names of spans.
var spanPaths = []string{
	pathCheck, pathReserve, pathCommit, pathRenew, pathCharge, pathPolicies, pathState, pathReset, pathBlock, pathUnblock, pathExplain, pathBlocks, pathTop, pathRates, pathKeys, pathProbes, pathTargets,
	pathProcess, pathPlan, pathCode, pathOpenAPI,
}

// SpanName returns the name of the request's span, of low cardinality: its method and route, or
// "HTTP" for an unknown path.
func SpanName(r *http.Request) string {
	switch path := RoutePath(r); {
	case path == pathAuthorize:
		return path // any method
	case path == pathConsole:
		return "console"
	case slices.Contains(spanPaths, path):
		return r.Method + " " + path
	default:
		return "HTTP"
	}
}

// RoutePath returns the path of the request. For forward-auth it leaves out the appended path
// of the original request.
func RoutePath(r *http.Request) string {
	if _, ok := belowAuthorize(r.URL); ok {
		return pathAuthorize
	}
	if strings.HasPrefix(r.URL.Path, pathConsole+"/") {
		return pathConsole
	}
	return r.URL.Path
}

// IsProbe reports whether the request is a liveness or readiness probe.
func IsProbe(r *http.Request) bool { return r.URL.Path == pathHealth || r.URL.Path == pathReady }

// hasCertificate reports whether the client certificate was verified.
func hasCertificate(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

// recoverPanic turns a panic into a 500 response, so that one request cannot close a shared
// connection. Handlers write their response as their last step, so none has been started.
func (h *Handler) recoverPanic(w http.ResponseWriter, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	h.Logger.ErrorContext(r.Context(), "Handler panicked",
		"path", r.URL.Path, "cause", cause, "stack", string(debug.Stack()))
	writeProblem(w, http.StatusInternalServerError, answer.Problem{Code: codeInternal, Detail: detailInternal})
}

// health serves the liveness probe.
func (h *Handler) health(w http.ResponseWriter, _ *http.Request) { writeProbe(w, h.Healthy) }

// ready serves the readiness probe. Deciding needs plans, but not Redis: while Redis is
// away the failure modes decide.
func (h *Handler) ready(w http.ResponseWriter, _ *http.Request) {
	switch {
	case h.draining.Load():
		writeText(w, http.StatusServiceUnavailable, "the server is draining")
	case h.Engine.Snapshot() == nil:
		writeText(w, http.StatusServiceUnavailable, limiter.ErrNotReady.Error())
	default:
		writeProbe(w, h.Ready)
	}
}

// writeProbe answers a probe with the error of check, which may be nil.
func writeProbe(w http.ResponseWriter, check func() error) {
	if check != nil {
		if err := check(); err != nil {
			writeText(w, http.StatusServiceUnavailable, err.Error())
			return
		}
	}
	writeText(w, http.StatusOK, "ok")
}

// Drain makes /readyz fail from now on. All other paths are served as before.
func (h *Handler) Drain() { h.draining.Store(true) }
