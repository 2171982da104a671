// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// Paths.
const (
	pathRoot     = "/console"
	pathOverview = "/console/"
	pathPolicies = "/console/policies"
	pathPolicy   = "/console/policy"
	pathKey      = "/console/key"
	pathConfirm  = "/console/confirm"
	pathChange   = "/console/change"
	pathTry      = "/console/try"
	pathLogin    = "/console/login"
	pathLogout   = "/console/logout"
	pathStatic   = "/console/static/"
)

// Path is the path of the first page, without code.
const Path = pathOverview

// securityPolicy is the Content-Security-Policy of every response: no script, no inline style, and
// nothing from elsewhere.
const securityPolicy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// maxForm bounds the body of a form, in bytes. A key has up to 4 KiB, and its encoding in a form
// three times as many.
const maxForm = 64 << 10

//go:embed static
var static embed.FS

// Options configure a Console.
type Options struct {
	// API are the options of the operator port. Its Authorizer may be nil only with Guests.
	API httpapi.Options
	// Guests lets everyone read who reaches the port, without a session. It is for a port on loopback
	// without an Authorizer.
	Guests bool
	// CheckURL returns the base URL of the HTTP API for the example on the overview, "" if it is not served; may
	// be nil.
	CheckURL func() string
	// Now is the clock of sessions; nil is time.Now.
	Now func() time.Time
}

// Console serves the pages. It implements httpapi.Console.
type Console struct {
	api        http.Handler
	engine     httpapi.Engine
	authorizer httpapi.Authorizer
	standalone bool
	// reportsTargets is whether GET /v1/targets is served.
	reportsTargets bool
	guest          *session // nil without Guests
	checkURL       func() string
	now            func() time.Time
	secret         [32]byte
	cookie         string
	sessions       *sessions
	origin         *http.CrossOriginProtection
	routes         map[string]route
	process        processCache
}

// route serves one path by method.
type route struct {
	get, post func(*visit) error
	public    bool // needs no session
}

// New returns a console.
func New(o Options) *Console {
	c := &Console{now: o.Now, checkURL: o.CheckURL, engine: o.API.Engine, standalone: o.API.Unready == nil, reportsTargets: o.API.Traffic != nil, origin: http.NewCrossOriginProtection()}
	if c.now == nil {
		c.now = time.Now //nolint:forbidigo // the default of the injected clock
	}
	_, _ = rand.Read(c.secret[:]) // never fails
	// Cookies are shared by all ports of a host. The suffix separates the cookies of several consoles.
	c.cookie = "weir-console-" + hex.EncodeToString(c.sign("cookie")[:4])
	c.sessions = newSessions(c.now)
	if o.Guests {
		token := newSecret()
		c.guest = &session{token: token, guest: true}
		o.API.Authorizer = guests(token)
	}
	c.authorizer = o.API.Authorizer
	c.api = httpapi.NewOperator(o.API, internalHost)
	c.routes = map[string]route{
		pathOverview: {get: c.overview},
		pathPolicies: {get: c.policies},
		pathPolicy:   {get: c.policy},
		pathKey:      {get: c.key, post: c.key},
		pathConfirm:  {post: c.confirm},
		pathChange:   {post: c.change},
		pathTry:      {get: c.try, post: c.try},
		pathLogin:    {get: c.showLogin, post: c.logIn, public: true},
		pathLogout:   {post: c.logOut},
	}
	return c
}

// sign returns a value that only this process can compute.
func (c *Console) sign(purpose string) []byte {
	mac := hmac.New(sha256.New, c.secret[:])
	mac.Write([]byte(purpose))
	return mac.Sum(nil)
}

// newSecret returns 256 random bits as text for URLs and cookies.
func newSecret() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(random[:])
}

// visit is one request.
type visit struct {
	w       http.ResponseWriter
	r       *http.Request
	session *session // nil on public paths without a session
}

func (v *visit) ctx() context.Context { return v.r.Context() }

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if name, ok := strings.CutPrefix(r.URL.Path, pathStatic); ok {
		serveStatic(w, r, name)
		return
	}
	if r.URL.Path == pathRoot {
		http.Redirect(w, r, pathOverview, http.StatusSeeOther)
		return
	}
	v := &visit{w: w, r: r, session: c.sessionOf(r)}
	if err := c.serve(v); err != nil {
		c.failWith(v, err)
	}
}

// serve answers the visit.
func (c *Console) serve(v *visit) error {
	route, known := c.routes[v.r.URL.Path]
	serve := route.get
	if v.r.Method == http.MethodPost {
		serve = route.post
	}
	switch {
	case !known:
		return c.fail(v, http.StatusNotFound, "This page does not exist", "Start from the overview.")
	case serve == nil || !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost}, v.r.Method):
		return c.fail(v, http.StatusMethodNotAllowed, "This page does not support the method", "Start from the overview.")
	case v.session == nil && !route.public:
		return c.askForLogin(v)
	case v.r.Method == http.MethodPost && !c.isGenuine(v):
		return c.fail(v, http.StatusForbidden, "This form is not valid any more",
			"It was opened in another session, or another site sent it. Open the page again and repeat the step.")
	}
	return serve(v)
}

// isGenuine reports whether a page of this session sent the form. It reads the form.
func (c *Console) isGenuine(v *visit) bool {
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if c.origin.Check(v.r) != nil || v.r.ParseForm() != nil {
		return false
	}
	return hmac.Equal([]byte(v.r.PostForm.Get("csrf")), []byte(c.csrf(v.session)))
}

// csrf returns the value that the forms of the session contain. Without a session it is the value of the
// login form.
func (c *Console) csrf(s *session) string {
	id := ""
	if s != nil {
		id = s.id
	}
	return base64.RawURLEncoding.EncodeToString(c.sign("csrf " + id))
}

func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", securityPolicy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	// Not no-referrer: browsers would then send "Origin: null" with forms.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// serveStatic serves a file of the console.
func serveStatic(w http.ResponseWriter, r *http.Request, name string) {
	switch name {
	case "style.css":
		http.ServeFileFS(w, r, static, "static/style.css")
	case "icon.svg":
		http.ServeFileFS(w, r, static, "static/icon.svg")
	default:
		http.NotFound(w, r)
	}
}

// processCache keeps the answer of GET /v1/process, which runs a script in Redis.
type processCache struct {
	sync.Mutex

	answer *httptypes.Process
	err    error
	at     time.Time
}
