// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/frontend/probe"
	"github.com/weir-dev/weir/internal/limiter/observe"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/internal/limiter/traffic"
	"github.com/weir-dev/weir/test/testenv"
)

const loopback = "127.0.0.1:4711"

// rights is an Authorizer that maps a token, which is also the name of its user, to verbs.
type rights map[string][]Verb

var errUnreachable = errors.New("unreachable")

func (r rights) Authorize(_ context.Context, token string, verb Verb, namespace, policy string) (Caller, error) {
	if token == "flood" {
		return Caller{}, fmt.Errorf("%w: later", ErrBusy)
	}
	if token == "unreachable" {
		return Caller{}, errUnreachable
	}
	verbs, known := r[token]
	if !known {
		return Caller{}, ErrUnauthenticated
	}
	for _, v := range verbs {
		if v == verb && namespace == "shop" && !strings.HasPrefix(policy, "foreign") {
			return Caller{User: token, CredentialID: "JTI=" + token}, nil
		}
	}
	return Caller{}, ErrForbidden
}

var team = rights{
	"root":      {VerbInspect, VerbBlock, VerbUnblock, VerbReset, VerbList, VerbReveal},
	"lister":    {VerbInspect, VerbUnblock, VerbList},
	"inspector": {VerbInspect}, "blocker": {VerbBlock}, "unblocker": {VerbUnblock}, "resetter": {VerbReset},
}

// onRedis is a handler with a real engine and Redis. It has the policies shop/login,
// with a key, and shop/shared, without one. Each admits two units an hour.
type onRedis struct {
	http.Handler
	t      *testing.T
	redis  *testenv.Redis
	log    *testenv.Log
	engine *engine.Engine
}

func newOnRedis(t *testing.T) *onRedis {
	t.Helper()
	o := &onRedis{t: t, redis: testenv.StartRedis(t), log: &testenv.Log{}}
	client, err := redisclient.New(o.redis.URL, time.Minute)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	store := redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir:", Timeout: time.Minute})
	logger := slog.New(slog.NewJSONHandler(o.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	observed := observe.New(observe.Options{Blocks: store, Replica: "me", Logger: logger, Registerer: prometheus.NewRegistry()})
	e := engine.New(engine.Options{
		Store: store, Holds: store, Registerer: prometheus.NewRegistry(), Logger: logger, Observer: observed,
	})
	observed.Watch(e.Decisions)
	e.Use(index.NewSnapshot(7, []*plan.Plan{
		hourly("login", plan.KeyPart{Type: plan.KeyHeader, Header: "x-account"}), hourly("shared"),
	}))
	o.engine = e
	prober := probe.New(probe.Options{
		Store: probe.NewRedisStore(client, "weir:"), Snapshot: e.Snapshot, Timeout: time.Minute, Now: time.Now, Logger: logger,
	})
	o.Handler = New(Options{Engine: e, State: e, Authorizer: team, Logger: logger, Blocks: observed, Observer: observed, Prober: prober, Traffic: traffic.NewReader(client, "weir:")})
	return o
}

func hourly(name string, key ...plan.KeyPart) *plan.Plan {
	return &plan.Plan{
		Namespace: "shop", Name: name, Mode: plan.ModeEnforce, Key: key, OnMissingKey: plan.MissingKeyShare,
		Limits:   []plan.Limit{{Name: "hourly", Algorithm: plan.FixedWindow, Threshold: 2, WindowMillis: 3_600_000}},
		Counting: plan.CountAdmitted, DenyWhen: plan.ThresholdExceeded, FailureMode: plan.FailOpen,
		Denial: plan.Denial{Code: "RateLimited", Message: "Too many requests."},
	}
}

// as sends a request with the token from a loopback address.
func (o *onRedis) as(token, method, target, body string) *httptest.ResponseRecorder {
	return sendAs(o, token, method, target, body)
}

func sendAs(h http.Handler, token, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.RemoteAddr = loopback
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// found changes state and returns the member found of the answer.
func (o *onRedis) found(path, body string) bool {
	o.t.Helper()
	w := o.as("root", http.MethodPost, path, body)
	var answer struct{ Found *bool }
	g := NewWithT(o.t)
	g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
	g.Expect(json.Unmarshal(w.Body.Bytes(), &answer)).To(Succeed())
	g.Expect(answer.Found).NotTo(BeNil())
	return *answer.Found
}

func (o *onRedis) state(query string) (s httptypes.KeyState) {
	o.t.Helper()
	w := o.as("root", http.MethodGet, pathState+"?"+query, "")
	g := NewWithT(o.t)
	g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
	g.Expect(json.Unmarshal(w.Body.Bytes(), &s)).To(Succeed())
	return s
}

// check sends a check and returns the status, the reason and the limit.
func (o *onRedis) check(body string) (status int, reason limiter.Reason, limit string) {
	o.t.Helper()
	w := send(o, http.MethodPost, pathCheck, body)
	var v answer.DecisionBody
	NewWithT(o.t).Expect(json.Unmarshal(w.Body.Bytes(), &v)).To(Succeed())
	return w.Code, v.Reason, v.Limit
}

// stateTarget is a key of a policy, as members of a JSON object and as a query. asGiven is a further member
// of the body of a change.
type stateTarget struct{ policy, key, query, asGiven string }

func (s *stateTarget) check() string { return `{"policies":[` + s.policy + "]" + s.key + "}" }

func (s *stateTarget) body() string { return `{"policy":` + s.policy + s.key + s.asGiven + "}" }

func (s *stateTarget) block(duration string) string {
	return `{"policy":` + s.policy + s.key + s.asGiven + `,"duration":"` + duration + `"}`
}

var stateTargets = map[string]stateTarget{
	"a key": {`"shop/login"`, `,"key":"secret-alice"`, "policy=shop/login&key=secret-alice", ""},
	"a key of parts": {
		`"shop/login"`, `,"key":["secret-alice","b"]`, "policy=shop/login&key=secret-alice&key=b&asGiven=true", `,"asGiven":true`,
	},
	"no key": {`"shop/shared"`, "", "policy=shop/shared", ""},
}

// expect sends a check and expects its status, reason and limit.
func (o *onRedis) expect(check string, status int, reason limiter.Reason, limit string) {
	o.t.Helper()
	gotStatus, gotReason, gotLimit := o.check(check)
	NewWithT(o.t).Expect([]any{gotStatus, gotReason, gotLimit}).To(Equal([]any{status, reason, limit}))
}

func TestInspectShowsUsedUnits(t *testing.T) {
	for name, tc := range stateTargets {
		t.Run(name, func(t *testing.T) {
			g, o := NewWithT(t), newOnRedis(t)
			before := o.state(tc.query)
			g.Expect(before.Blocked).To(BeFalse())
			g.Expect(before.Revision).To(Equal(int64(7)))
			g.Expect(before.Limits).To(HaveLen(1))
			g.Expect(before.Limits[0].Remaining).To(Equal(int64(2)))
			o.expect(tc.check(), 200, limiter.ReasonAllowed, "")
			o.expect(tc.check(), 200, limiter.ReasonAllowed, "")
			o.expect(tc.check(), 429, limiter.ReasonLimitExceeded, "hourly")
			g.Expect(o.state(tc.query).Limits[0].Used).To(Equal(int64(2)))
		})
	}
}

func TestResetRestoresTheBudget(t *testing.T) {
	for name, tc := range stateTargets {
		t.Run(name, func(t *testing.T) {
			g, o := NewWithT(t), newOnRedis(t)
			g.Expect(o.found(pathReset, tc.body())).To(BeFalse())
			o.expect(tc.check(), 200, limiter.ReasonAllowed, "")
			o.expect(tc.check(), 200, limiter.ReasonAllowed, "")
			o.expect(tc.check(), 429, limiter.ReasonLimitExceeded, "hourly")
			g.Expect(o.found(pathReset, tc.body())).To(BeTrue())
			g.Expect(o.state(tc.query).Limits[0].Used).To(BeZero())
			o.expect(tc.check(), 200, limiter.ReasonAllowed, "")
		})
	}
}

func TestBlockDeniesUntilUnblock(t *testing.T) {
	for name, tc := range stateTargets {
		t.Run(name, func(t *testing.T) {
			g, o := NewWithT(t), newOnRedis(t)
			g.Expect(o.found(pathUnblock, tc.body())).To(BeFalse())
			g.Expect(o.found(pathBlock, tc.block("10m"))).To(BeTrue())
			o.expect(tc.check(), 429, limiter.ReasonBlocked, "")
			blocked := o.state(tc.query)
			g.Expect(blocked.Blocked).To(BeTrue())
			g.Expect(blocked.BlockedBy).To(BeEmpty(), "no limit started the block")
			// The remaining time is rounded up, so a caller that waits for it does not come early.
			g.Expect(blocked.BlockLeftMs).To(And(BeNumerically(">", 590_000), BeNumerically("<=", 600_001)))
			g.Expect(o.found(pathUnblock, tc.body())).To(BeTrue())
			o.expect(tc.check(), 200, limiter.ReasonAllowed, "")
		})
	}
}

func TestChangesAreLoggedWithoutKeyAndToken(t *testing.T) {
	for name, tc := range stateTargets {
		t.Run(name, func(t *testing.T) {
			g, o := NewWithT(t), newOnRedis(t)
			o.found(pathReset, tc.body())
			o.found(pathBlock, tc.block("10m"))
			o.found(pathUnblock, tc.body())
			log := o.log.String()
			g.Expect(log).To(ContainSubstring(`"level":"INFO","msg":"Blocked a key","policy":"shop/`))
			g.Expect(log).To(MatchRegexp(`"msg":"Blocked a key",.*"keyHash":"[0-9a-f]{16}","user":"root","credentialID":"JTI=root","duration":"10m0s","found":true`))
			g.Expect(log).To(MatchRegexp(`"msg":"Unblocked a key",.*"user":"root","credentialID":"JTI=root","found":true`))
			g.Expect(log).To(MatchRegexp(`"msg":"Reset a key",.*"user":"root","credentialID":"JTI=root","found":false`))
			g.Expect(log).NotTo(Or(ContainSubstring("secret-alice"), ContainSubstring("Bearer")))
		})
	}
}

func TestClaimedUserIsLogged(t *testing.T) {
	for name, tc := range map[string]struct{ claimed, want string }{
		"a name":         {"jane", `"claimedUser":"jane"`},
		"a forged line":  {`","user":"admin`, `"claimedUser":"\",\"user\":\"admin"`},
		"not UTF-8":      {"j\xff", `"claimedUser":"j\ufffd"`},
		"a flood":        {strings.Repeat("j", 300), `"claimedUser":"` + strings.Repeat("j", 255) + `"`},
		"no name at all": {"", `"user":"root","credentialID":"JTI=root","found":true`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var log testenv.Log
			h := New(Options{Engine: &fakeEngine{}, State: &fakeState{}, Authorizer: team, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
			r := httptest.NewRequest(http.MethodPost, pathReset, strings.NewReader(`{"policy":"shop/a"}`))
			r.RemoteAddr = loopback
			r.Header.Set("Authorization", "Bearer root")
			r.Header.Set("Weir-Claimed-User", tc.claimed)
			h.ServeHTTP(httptest.NewRecorder(), r)
			g.Expect(log.String()).To(ContainSubstring(tc.want))
		})
	}
}

func TestInvalidStateRequestsAreRejected(t *testing.T) {
	o := newOnRedis(t)
	target := `{"policy":"shop/login","key":"alice"`
	for name, tc := range map[string]struct {
		method, target, body string
		status               int
		field                string
	}{
		"no policy":                   {"GET", "/v1/state?key=a", "", 400, "policy"},
		"no namespace":                {"GET", "/v1/state?policy=login", "", 400, "policy"},
		"two policies":                {"GET", "/v1/state?policy=a/b&policy=a/c", "", 400, "policy"},
		"an unknown parameter":        {"GET", "/v1/state?policy=shop/login&key=a&cost=1", "", 400, "cost"},
		"an invalid address":          {"GET", "/v1/state?policy=shop/login&key=a&remoteAddress=here", "", 400, "remoteAddress"},
		"a malformed query":           {"GET", "/v1/state?policy=shop/login&key=%zz", "", 400, "query"},
		"no key in the query":         {"GET", "/v1/state?policy=shop/login", "", 400, "key"},
		"an empty key":                {"GET", "/v1/state?policy=shop/login&key=", "", 400, "key[0]"},
		"too many parts":              {"GET", "/v1/state?policy=shop/login" + strings.Repeat("&key=a", 9), "", 400, "key"},
		"a key that is not UTF-8":     {"GET", "/v1/state?policy=shop/login&key=%ff", "", 400, "key[0]"},
		"an unknown policy":           {"GET", "/v1/state?policy=shop/nonesuch&key=a", "", 404, "policy"},
		"an unknown policy to reset":  {"POST", pathReset, `{"policy":"shop/nonesuch","key":"a"}`, 404, "policy"},
		"by POST":                     {"POST", "/v1/state?policy=shop/login&key=a", "", 405, ""},
		"by GET":                      {"GET", pathReset, "", 405, ""},
		"an empty body":               {"POST", pathReset, "", 400, ""},
		"not an object":               {"POST", pathReset, "[]", 400, ""},
		"not UTF-8":                   {"POST", pathReset, "\xff", 400, ""},
		"trailing data":               {"POST", pathReset, target + "}}", 400, ""},
		"an unknown member":           {"POST", pathReset, target + `,"x":1}`, 400, "x"},
		"a duration, to reset":        {"POST", pathReset, target + `,"duration":"1m"}`, 400, "duration"},
		"no duration":                 {"POST", pathBlock, target + `}`, 400, "duration"},
		"a duration in words":         {"POST", pathBlock, target + `,"duration":"soon"}`, 400, "duration"},
		"a number of seconds":         {"POST", pathBlock, target + `,"duration":60}`, 400, "duration"},
		"days":                        {"POST", pathBlock, target + `,"duration":"7d"}`, 400, "duration"},
		"a duration of zero":          {"POST", pathBlock, target + `,"duration":"0s"}`, 400, "duration"},
		"a negative duration":         {"POST", pathBlock, target + `,"duration":"-1m"}`, 400, "duration"},
		"a duration too long":         {"POST", pathBlock, target + `,"duration":"9000h"}`, 400, "duration"},
		"a fraction of a millisecond": {"POST", pathBlock, target + `,"duration":"1.5ms"}`, 400, "duration"},
		"no key":                      {"POST", pathBlock, `{"policy":"shop/login","duration":"1m"}`, 400, "key"},
		"a key of no parts":           {"POST", pathUnblock, `{"policy":"shop/login","key":[]}`, 400, "key"},
		"a key that is null":          {"POST", pathUnblock, `{"policy":"shop/login","key":null}`, 400, "key"},
		"a part that is empty":        {"POST", pathUnblock, `{"policy":"shop/login","key":["a",""]}`, 400, "key[1]"},
		"too large":                   {"POST", pathUnblock, strings.Repeat(" ", maxBody+1), 413, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := o.as("root", tc.method, tc.target, tc.body)
			g.Expect(w.Code).To(Equal(tc.status), w.Body.String())
			g.Expect(decodeProblem(g, w).Field).To(Equal(tc.field))
		})
	}
}

func TestDurationsInDaysAreWrittenInHours(t *testing.T) {
	g, o := NewWithT(t), newOnRedis(t)
	w := o.as("root", http.MethodPost, pathBlock, `{"policy":"shop/login","key":"k","duration":"7d"}`)
	g.Expect(decodeProblem(g, w).Detail).To(HaveSuffix("7d: write 168h"))
}

func TestStateReportsAnUnreachableRedis(t *testing.T) {
	g, o := NewWithT(t), newOnRedis(t)
	o.redis.Stop()
	for _, call := range [][3]string{
		{"GET", "/v1/state?policy=shop/login&key=secret-alice", ""},
		{"POST", pathReset, `{"policy":"shop/login","key":"secret-alice"}`},
		{"POST", pathBlock, `{"policy":"shop/login","key":"secret-alice","duration":"1m"}`},
		{"POST", pathUnblock, `{"policy":"shop/login","key":"secret-alice"}`},
	} {
		w := o.as("root", call[0], call[1], call[2])
		g.Expect(w.Code).To(Equal(http.StatusServiceUnavailable), call[1])
		g.Expect(w.Header().Get(answer.HeaderRetryAfter)).To(Equal("1"))
		g.Expect(decodeProblem(g, w).Code).To(Equal(codeUnavailable))
	}
	g.Expect(o.log.String()).To(MatchRegexp(`"ERROR","msg":"Failed to read or change the state of a key",.*"keyHash":"[0-9a-f]{16}","user":"root","credentialID":"JTI=root","duration":"1m0s","path":"/v1/block"`))
	g.Expect(o.log.String()).NotTo(ContainSubstring("secret-alice"))
}

func TestStateNeedsPlans(t *testing.T) {
	g := NewWithT(t)
	h := New(Options{Engine: &fakeEngine{}, State: &fakeState{err: limiter.ErrNotReady}, Authorizer: team})
	w := sendAs(h, "root", http.MethodPost, pathReset, `{"policy":"shop/a"}`)
	g.Expect(w.Code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(decodeProblem(g, w).Code).To(Equal(codeNotReady))
}
