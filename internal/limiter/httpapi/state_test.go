// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/answer"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/script"
	"github.com/weir-dev/weir/internal/testenv"
)

const loopback = "127.0.0.1:4711"

// rights is an Authorizer: what the bearer of a token, who is called as it, may
// do.
type rights map[string][]Verb

var errAway = errors.New("away")

func (a rights) Authorize(_ context.Context, token string, verb Verb, namespace, policy string) (string, error) {
	if token == "unjudged" {
		return "", errAway
	}
	verbs, known := a[token]
	if !known {
		return "", ErrUnauthenticated
	}
	for _, v := range verbs {
		if v == verb && namespace == "shop" && !strings.HasPrefix(policy, "foreign") {
			return token, nil
		}
	}
	return "", ErrForbidden
}

var team = rights{
	"root": {VerbInspect, VerbBlock, VerbUnblock, VerbReset},
	"eyes": {VerbInspect}, "stopper": {VerbBlock}, "lifter": {VerbUnblock}, "eraser": {VerbReset},
}

// operated is the handler of a real engine on a real Redis with the policies
// shop/login, which has a key, and shop/shared, which has none. Each admits two
// units an hour.
type operated struct {
	http.Handler
	t     *testing.T
	redis *testenv.Redis
	log   *testenv.Log
}

func operate(t *testing.T) *operated {
	t.Helper()
	o := &operated{t: t, redis: testenv.StartRedis(t), log: &testenv.Log{}}
	client, err := redisclient.New(o.redis.URL, time.Second)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	store := script.NewStore(client, "weir:")
	logger := slog.New(slog.NewJSONHandler(o.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	e := engine.New(engine.Options{
		Store: store, Registerer: prometheus.NewRegistry(), Logger: logger, StoreTimeout: time.Second,
	})
	e.Use(plan.NewSnapshot(7, []*plan.Plan{
		hourly("login", plan.KeyPart{Type: plan.KeyHeader, Header: "x-account"}), hourly("shared"),
	}))
	o.Handler = New(Options{Engine: e, State: e, Authorizer: team, Logger: logger})
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

// as sends a request with the token from this machine.
func (o *operated) as(token, method, target, body string) *httptest.ResponseRecorder {
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

// does makes a change and returns whether there was anything to change.
func (o *operated) does(path, body string) bool {
	o.t.Helper()
	w := o.as("root", http.MethodPost, path, body)
	var answer struct{ Found *bool }
	g := NewWithT(o.t)
	g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
	g.Expect(json.Unmarshal(w.Body.Bytes(), &answer)).To(Succeed())
	g.Expect(answer.Found).NotTo(BeNil())
	return *answer.Found
}

func (o *operated) state(query string) (s keyState) {
	o.t.Helper()
	w := o.as("root", http.MethodGet, pathState+"?"+query, "")
	g := NewWithT(o.t)
	g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
	g.Expect(json.Unmarshal(w.Body.Bytes(), &s)).To(Succeed())
	return s
}

// check returns the status, the reason and the limit.
func (o *operated) check(body string) (status int, reason limiter.Reason, limit string) {
	o.t.Helper()
	w := send(o, http.MethodPost, pathCheck, body)
	var v answer.DecisionBody
	NewWithT(o.t).Expect(json.Unmarshal(w.Body.Bytes(), &v)).To(Succeed())
	return w.Code, v.Reason, v.Limit
}

func TestOperatorsSeeAndChangeState(t *testing.T) {
	for name, tc := range map[string]struct{ policy, key, query string }{
		"a key":         {`"shop/login"`, `,"key":"secret-alice"`, "policy=shop/login&key=secret-alice"},
		"a key, parts":  {`"shop/login"`, `,"key":["secret-alice","b"]`, "policy=shop/login&key=secret-alice&key=b"},
		"no key at all": {`"shop/shared"`, "", "policy=shop/shared"},
	} {
		t.Run(name, func(t *testing.T) {
			g, o := NewWithT(t), operate(t)
			check, target := `{"policies":[`+tc.policy+"]"+tc.key+"}", `{"policy":`+tc.policy+tc.key+"}"
			expect := func(status int, reason limiter.Reason, limit string) {
				t.Helper()
				gotStatus, gotReason, gotLimit := o.check(check)
				g.Expect([]any{gotStatus, gotReason, gotLimit}).To(Equal([]any{status, reason, limit}))
			}
			before := o.state(tc.query)
			g.Expect(before.Blocked).To(BeFalse())
			g.Expect(before.Revision).To(Equal(int64(7)))
			g.Expect(before.Limits).To(HaveLen(1))
			g.Expect(before.Limits[0].Remaining).To(Equal(int64(2)), "looking spends nothing")
			g.Expect(o.does(pathReset, target)).To(BeFalse())
			g.Expect(o.does(pathUnblock, target)).To(BeFalse())

			expect(200, limiter.ReasonAllowed, "")
			expect(200, limiter.ReasonAllowed, "")
			expect(429, limiter.ReasonLimitExceeded, "hourly")
			g.Expect(o.state(tc.query).Limits[0].Used).To(Equal(int64(2)))
			g.Expect(o.does(pathReset, target)).To(BeTrue())
			g.Expect(o.state(tc.query).Limits[0].Used).To(BeZero())
			expect(200, limiter.ReasonAllowed, "")

			g.Expect(o.does(pathBlock, `{"policy":`+tc.policy+tc.key+`,"duration":"10m"}`)).To(BeTrue())
			expect(429, limiter.ReasonBlocked, "")
			blocked := o.state(tc.query)
			g.Expect(blocked.Blocked).To(BeTrue())
			g.Expect(blocked.BlockedBy).To(BeEmpty(), "set by hand")
			// To wait that long is enough, so it counts the millisecond that has begun.
			g.Expect(blocked.BlockLeftMs).To(And(BeNumerically(">", 590_000), BeNumerically("<=", 600_001)))
			g.Expect(o.does(pathUnblock, target)).To(BeTrue())
			expect(200, limiter.ReasonAllowed, "")

			log := o.log.String()
			g.Expect(log).To(ContainSubstring(`"level":"INFO","msg":"Blocked a key","policy":"shop/`))
			g.Expect(log).To(MatchRegexp(`"msg":"Blocked a key",.*"keyHash":"[0-9a-f]{16}","user":"root","duration":"10m0s","found":true`))
			g.Expect(log).To(MatchRegexp(`"msg":"Unblocked a key",.*"user":"root","found":true`))
			g.Expect(log).To(MatchRegexp(`"msg":"Reset a key",.*"user":"root","found":false`))
			g.Expect(log).NotTo(Or(ContainSubstring("secret-alice"), ContainSubstring("Bearer")))
		})
	}
}

func TestStateRequestsThatAreWrong(t *testing.T) {
	o := operate(t)
	target := `{"policy":"shop/login","key":"alice"`
	for name, tc := range map[string]struct {
		method, target, body string
		status               int
		field                string
	}{
		"no policy":            {"GET", "/v1/state?key=a", "", 400, "policy"},
		"no namespace":         {"GET", "/v1/state?policy=login", "", 400, "policy"},
		"two policies":         {"GET", "/v1/state?policy=a/b&policy=a/c", "", 400, "policy"},
		"an unknown parameter": {"GET", "/v1/state?policy=shop/login&key=a&cost=1", "", 400, "cost"},
		"no address":           {"GET", "/v1/state?policy=shop/login&key=a&remoteAddress=here", "", 400, "remoteAddress"},
		"a query that is none": {"GET", "/v1/state?policy=shop/login&key=%zz", "", 400, "query"},
		"no key in the query":  {"GET", "/v1/state?policy=shop/login", "", 400, "key"},
		"an empty key":         {"GET", "/v1/state?policy=shop/login&key=", "", 400, "key[0]"},
		"too many parts":       {"GET", "/v1/state?policy=shop/login" + strings.Repeat("&key=a", 9), "", 400, "key"},
		"a key of odd bytes":   {"GET", "/v1/state?policy=shop/login&key=%ff", "", 400, "key[0]"},
		"an unknown policy":    {"GET", "/v1/state?policy=shop/nonesuch&key=a", "", 404, "policy"},
		"to reset, unknown":    {"POST", pathReset, `{"policy":"shop/nonesuch","key":"a"}`, 404, "policy"},
		"by POST":              {"POST", "/v1/state?policy=shop/login&key=a", "", 405, ""},
		"by GET":               {"GET", pathReset, "", 405, ""},
		"nothing":              {"POST", pathReset, "", 400, ""},
		"no object":            {"POST", pathReset, "[]", 400, ""},
		"odd bytes":            {"POST", pathReset, "\xff", 400, ""},
		"more after it":        {"POST", pathReset, target + "}}", 400, ""},
		"an unknown member":    {"POST", pathReset, target + `,"x":1}`, 400, "x"},
		"a duration, to reset": {"POST", pathReset, target + `,"duration":"1m"}`, 400, "duration"},
		"no duration":          {"POST", pathBlock, target + `}`, 400, "duration"},
		"a duration in words":  {"POST", pathBlock, target + `,"duration":"soon"}`, 400, "duration"},
		"a number of seconds":  {"POST", pathBlock, target + `,"duration":60}`, 400, "duration"},
		"a duration of none":   {"POST", pathBlock, target + `,"duration":"0s"}`, 400, "duration"},
		"one in the past":      {"POST", pathBlock, target + `,"duration":"-1m"}`, 400, "duration"},
		"one too long":         {"POST", pathBlock, target + `,"duration":"9000h"}`, 400, "duration"},
		"one too fine":         {"POST", pathBlock, target + `,"duration":"1.5ms"}`, 400, "duration"},
		"no key":               {"POST", pathBlock, `{"policy":"shop/login","duration":"1m"}`, 400, "key"},
		"a key of no parts":    {"POST", pathUnblock, `{"policy":"shop/login","key":[]}`, 400, "key"},
		"a key that is null":   {"POST", pathUnblock, `{"policy":"shop/login","key":null}`, 400, "key"},
		"a part that is empty": {"POST", pathUnblock, `{"policy":"shop/login","key":["a",""]}`, 400, "key[1]"},
		"too large":            {"POST", pathUnblock, strings.Repeat(" ", maxBody+1), 413, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := o.as("root", tc.method, tc.target, tc.body)
			g.Expect(w.Code).To(Equal(tc.status), w.Body.String())
			g.Expect(decodeProblem(g, w).Field).To(Equal(tc.field))
		})
	}
}

func TestStateWithoutRedis(t *testing.T) {
	g, o := NewWithT(t), operate(t)
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
	g.Expect(o.log.String()).To(MatchRegexp(`"ERROR","msg":"Failed to reach the state of a key",.*"keyHash":"[0-9a-f]{16}","user":"root","duration":"1m0s","path":"/v1/block"`))
	g.Expect(o.log.String()).NotTo(ContainSubstring("secret-alice"))
}

// fakeState counts what it is asked and does what it is told.
type fakeState struct {
	calls int
	err   error
	began func(ctx context.Context)
}

func (s *fakeState) do(ctx context.Context) (bool, error) {
	s.calls++
	if s.began != nil {
		s.began(ctx)
	}
	return true, s.err
}

func (s *fakeState) Inspect(ctx context.Context, _ string, _ []string, _ plan.Attributes) (*limiter.KeyState, error) {
	_, err := s.do(ctx)
	return &limiter.KeyState{}, err
}

func (s *fakeState) Reset(ctx context.Context, _ string, _ []string) (bool, error) { return s.do(ctx) }

func (s *fakeState) Block(ctx context.Context, _ string, _ []string, _ time.Duration) error {
	_, err := s.do(ctx)
	return err
}

func (s *fakeState) Unblock(ctx context.Context, _ string, _ []string) (bool, error) {
	return s.do(ctx)
}

// A change is finished and logged for a caller that hangs up meanwhile; a look
// is not, and is no fault of ours.
func TestCallerHangsUp(t *testing.T) {
	g := NewWithT(t)
	var log testenv.Log
	for path, want := range map[string]int{pathState + "?policy=shop/a": statusClientClosed, pathReset: http.StatusOK} {
		ctx, hangUp := context.WithCancel(t.Context())
		state := &fakeState{}
		state.began = func(ctx context.Context) { hangUp(); state.err = ctx.Err() }
		method, body := http.MethodGet, ""
		if path == pathReset {
			method, body = http.MethodPost, `{"policy":"shop/a"}`
		}
		r := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(ctx)
		r.RemoteAddr = loopback
		r.Header.Set("Authorization", "Bearer root")
		w := httptest.NewRecorder()
		New(Options{Engine: &fakeEngine{}, State: state, Authorizer: team, Logger: slog.New(slog.NewTextHandler(&log, nil))}).ServeHTTP(w, r)
		g.Expect(w.Code).To(Equal(want), path)
	}
	g.Expect(log.String()).To(ContainSubstring("Reset a key"))
	g.Expect(log.String()).NotTo(ContainSubstring("ERROR"))
}

func TestStateBeforeTheFirstPlans(t *testing.T) {
	g := NewWithT(t)
	h := New(Options{Engine: &fakeEngine{}, State: &fakeState{err: limiter.ErrNotReady}, Authorizer: team})
	w := sendAs(h, "root", http.MethodPost, pathReset, `{"policy":"shop/a"}`)
	g.Expect(w.Code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(decodeProblem(g, w).Code).To(Equal(codeNotReady))
}

func (*fakeState) KeyHash(...string) string { return "hash" }
