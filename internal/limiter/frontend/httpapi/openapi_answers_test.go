// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
)

// documentedCall is a request with the status that its answer must have.
type documentedCall struct {
	token, method, target, body string
	status                      int
}

// Every answer conforms to the document, and every documented status is answered.
func TestAnswersConformToOpenAPI(t *testing.T) {
	g, c, o := NewWithT(t), loadContract(t), newOnRedis(t)
	const shared = `{"policies":["shop/login"],"key":["alice","b"],"cost":1,"peek":false,
		"attributes":{"method":"GET","host":"h","path":"/","headers":{"a":"b"},"remoteAddress":"::1","principal":"p",
		"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}}`
	const inspect, target = "/v1/state?policy=shop/login&key=alice&key=b&asGiven=true", `{"policy":"shop/login","key":["alice","b"],"asGiven":true}`
	const block = `{"policy":"shop/login","key":["alice","b"],"asGiven":true,"duration":"1h30m"}`
	run := func(h http.Handler, calls ...documentedCall) {
		t.Helper()
		for _, call := range calls {
			r := httptest.NewRequest(call.method, call.target, strings.NewReader(call.body))
			r.RemoteAddr = loopback
			if call.token != "" {
				r.Header.Set("Authorization", "Bearer "+call.token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			g.Expect(w.Code).To(Equal(call.status), call.target+": "+w.Body.String())
			g.Expect(c.violation(r, call.body, w)).To(BeEmpty(), call.target+": "+w.Body.String())
		}
	}
	big := strings.Repeat(" ", maxBody+1)
	run(o,
		documentedCall{"", "POST", pathCheck, shared, 200},
		documentedCall{"", "POST", pathCheck, `{"attributes":{}}`, 200},
		documentedCall{"", "POST", pathCheck, shared, 200},
		documentedCall{"", "POST", pathCheck, shared, 429},
		documentedCall{"", "POST", pathCheck, strings.Replace(shared, `"cost":1`, `"cost":9`, 1), 429},
		documentedCall{"", "POST", pathCheck, `{"policies":["shop"]}`, 400},
		documentedCall{"", "POST", pathCheck, `{"policies":["shop/nonesuch"]}`, 404},
		documentedCall{"", "POST", pathCheck, big, 413},
		documentedCall{"", "PUT", pathAuthorize + "?policy=shop/shared", "", 200},
		documentedCall{"", "GET", pathAuthorize + "?policy=shop/shared", "", 200},
		documentedCall{"", "GET", pathAuthorize + "?policy=shop/shared", "", 429},
		documentedCall{"", "GET", pathAuthorize + "?policy=shop/shared&deny=403", "", 403},
		documentedCall{"", "GET", pathAuthorize + "?policy=shop/nonesuch", "", 404},
		documentedCall{"", "GET", pathAuthorize + "?deny=1", "", 400},
		documentedCall{"", "GET", pathAuthorize + "/login", "", 200},
		documentedCall{"", "GET", pathPolicies, "", 200},
		documentedCall{"", "GET", pathHealth, "", 200},
		documentedCall{"", "GET", pathReady, "", 200},
		documentedCall{"", "GET", pathOpenAPI, "", 200},

		documentedCall{"root", "POST", pathBlock, block, 200},
		documentedCall{"", "POST", pathCheck, shared, 429},
		documentedCall{"root", "GET", inspect, "", 200},
		documentedCall{"root", "POST", pathUnblock, target, 200},
		documentedCall{"root", "POST", pathReset, target, 200},
		documentedCall{"root", "GET", "/v1/state?policy=shop/shared&remoteAddress=::1&principal=p", "", 200},
		documentedCall{"root", "POST", pathExplain, shared, 200},
		documentedCall{"root", "POST", pathExplain, `{"attributes":{}}`, 200},
		documentedCall{"unblocker", "POST", pathExplain, `{"attributes":{}}`, 200},
		documentedCall{"", "POST", pathExplain, shared, 401},
		documentedCall{"unblocker", "POST", pathExplain, shared, 403},
		documentedCall{"root", "POST", pathExplain, "{}", 400},
		documentedCall{"root", "POST", pathExplain, strings.Replace(shared, "login", "nonesuch", 1), 404},
		documentedCall{"root", "POST", pathExplain, big, 413},
		documentedCall{"unreachable", "POST", pathExplain, shared, 503},
	)
	for path, body := range map[string]string{pathReset: target, pathUnblock: target, pathBlock: block} {
		run(o,
			documentedCall{"", "POST", path, body, 401},
			documentedCall{"unknown", "POST", path, body, 401},
			documentedCall{"inspector", "POST", path, body, 403},
			documentedCall{"root", "POST", path, "{}", 400},
			documentedCall{"root", "POST", path, strings.Replace(body, "login", "nonesuch", 1), 404},
			documentedCall{"root", "POST", path, big, 413},
			documentedCall{"unreachable", "POST", path, body, 503},
		)
	}
	run(o,
		documentedCall{"root", "POST", pathBlock, block, 200},
		documentedCall{"lister", "GET", "/v1/blocks?policy=shop/login", "", 200},
		documentedCall{"root", "GET", "/v1/blocks?limit=1", "", 200},
		documentedCall{"lister", "GET", pathKeys + "?policy=shop/login&value=alice", "", 200},
		documentedCall{"root", "GET", pathKeys + "?value=alice", "", 200},
		documentedCall{"root", "GET", pathKeys + "?policy=shop/login&part=x-account&value=alice", "", 200},
		documentedCall{"root", "POST", pathUnblock, `{"policy":"shop/login","keyHash":"0123456789abcdef"}`, 404},
		documentedCall{"root", "POST", pathUnblock, `{"policy":"shop/login","all":true}`, 200},
		documentedCall{"root", "GET", "/v1/state?policy=shop/login&keyHash=0123456789abcdef", "", 404},
	)
	run(o,
		documentedCall{"root", "GET", pathPlan + "?policy=shop/login", "", 200},
		documentedCall{"", "GET", pathPlan + "?policy=shop/login", "", 401},
		documentedCall{"unblocker", "GET", pathPlan + "?policy=shop/login", "", 403},
		documentedCall{"root", "GET", pathPlan, "", 400},
		documentedCall{"root", "GET", pathPlan + "?namespace=shop", "", 400},
		documentedCall{"root", "GET", pathPlan + "?policy=shop/nonesuch", "", 404},
		documentedCall{"unreachable", "GET", pathPlan + "?policy=shop/login", "", 503},
	)
	run(o,
		documentedCall{"unblocker", "POST", pathProbes, `{"namespace":"shop","method":"GET"}`, 200},
		documentedCall{"", "POST", pathProbes, `{"namespace":"shop"}`, 401},
		documentedCall{"inspector", "POST", pathProbes, `{"namespace":"shop"}`, 403},
		documentedCall{"root", "POST", pathProbes, "", 400},
		documentedCall{"root", "POST", pathProbes, big, 413},
		documentedCall{"unreachable", "POST", pathProbes, `{"namespace":"shop"}`, 503},
	)
	described := &httptypes.Process{Version: "v1", Certificates: []httptypes.Certificate{{Name: "server"}}}
	operator := NewOperator(Options{Engine: &fakeEngine{}, Process: func(context.Context) *httptypes.Process { return described }}, "example.com:8083")
	process := documentedCall{"", "GET", pathProcess, "", 200}
	run(operator, process)
	described.Redis = &httptypes.Redis{Servers: []string{"redis 7.0.15"}, OldestTested: "7.0", Evictions: []string{}, Problems: []string{"no"}}
	run(operator, process)
	run(NewOperator(Options{Engine: &fakeEngine{}, State: &fakeState{}, Authorizer: team, Console: fakeConsole{}}, "example.com:8083"),
		documentedCall{"lister", "POST", pathCode, "", 200},
		documentedCall{"", "POST", pathCode, "", 401},
		documentedCall{"unreachable", "POST", pathCode, "", 503},
	)
	operator.describing.Lock()
	process.status = 503
	run(operator, process)
	for _, path := range []string{pathBlocks, pathTop, pathRates, pathTargets} {
		run(o,
			documentedCall{"lister", "GET", path + "?namespace=shop", "", 200},
			documentedCall{"", "GET", path, "", 401},
			documentedCall{"inspector", "GET", path + "?namespace=shop", "", 403},
			documentedCall{"root", "GET", path + "?policy=shop", "", 400},
			documentedCall{"root", "GET", path + "?policy=shop/nonesuch", "", 404},
			documentedCall{"unreachable", "GET", path, "", 503},
		)
	}
	const keys = pathKeys + "?value=alice"
	run(o,
		documentedCall{"", "GET", keys, "", 401},
		documentedCall{"inspector", "GET", keys + "&namespace=shop", "", 403},
		documentedCall{"root", "GET", pathKeys, "", 400},
		documentedCall{"root", "GET", keys + "&policy=shop/nonesuch", "", 404},
		documentedCall{"unreachable", "GET", keys, "", 503},
		documentedCall{"", "GET", inspect, "", 401},
		documentedCall{"unblocker", "GET", inspect, "", 403},
		documentedCall{"root", "GET", "/v1/state?policy=shop/nonesuch", "", 404},
		documentedCall{"root", "GET", "/v1/state?policy=shop/login", "", 400},
	)
	reservation := runReservations(o, run)
	o.redis.Stop()
	run(o,
		documentedCall{"", "POST", pathReserve, reserveTokens, 200},
		documentedCall{"", "POST", pathCommit, `{"reservation":"` + reservation + `","cost":1}`, 503},
		documentedCall{"", "POST", pathRenew, `{"reservation":"` + reservation + `"}`, 503},
		documentedCall{"", "POST", pathCharge, chargeTokens, 503},
		documentedCall{"", "POST", pathCheck, shared, 200},
		documentedCall{"root", "GET", inspect, "", 503},
		documentedCall{"root", "POST", pathReset, target, 503},
		documentedCall{"root", "POST", pathProbes, `{"namespace":"shop"}`, 503},
	)
	c.runOnFakes(run)
	g.Expect(slices.DeleteFunc(c.documented(), func(s string) bool {
		// The same handler serves the paths below /v1/authorize.
		return c.seen[s] || strings.HasPrefix(s, "/v1/authorize/")
	})).To(BeEmpty(), "documented statuses without an answer")
}

const (
	reserveTokens = `{"policies":["shop/tokens","shop/shared"],"key":"alice","cost":60,"ttl":"5m","id":"r-1"}`
	chargeTokens  = `{"policies":["shop/tokens"],"key":["alice"],"cost":7,"id":"c-1"}`
)

// runReservations runs the calls of reservations and returns a reservation.
func runReservations(o *onRedis, run func(h http.Handler, calls ...documentedCall)) string {
	tokens := hourly("tokens")
	tokens.Limits[0].Threshold = 100
	tokens.Reservations = plan.Reservations{MaxTTLMillis: 600_000, MaxOpen: 10}
	failures := hourly("failures")
	failures.Reservations = plan.Reservations{MaxTTLMillis: 600_000, MaxOpen: 10, Cost: "response.code == 401 ? 1 : 0"}
	sliced := hourly("sliced")
	sliced.Limits[0].Threshold, sliced.Slices = 100, plan.Slices{MaxPercent: 10, MaxAgeMillis: 1000}
	o.engine.Use(index.NewSnapshot(8, []*plan.Plan{
		tokens, failures, sliced, hourly("shared"), hourly("login", plan.KeyPart{Type: plan.KeyHeader, Header: "x-account"}),
	}))
	w := o.as("", "POST", pathReserve, strings.Replace(reserveTokens, "alice", "bob", 1))
	var body answer.DecisionBody
	NewWithT(o.t).Expect(json.Unmarshal(w.Body.Bytes(), &body)).To(Succeed())
	commit := `{"reservation":"` + body.Reservation + `","costs":{"shop/tokens":7}}`
	renew := `{"reservation":"` + body.Reservation + `","ttl":"10m"}`
	w = o.as("", "POST", pathReserve, `{"policies":["shop/failures"],"key":"bob"}`)
	var failed answer.DecisionBody
	NewWithT(o.t).Expect(json.Unmarshal(w.Body.Bytes(), &failed)).To(Succeed())
	outcome := `{"reservation":"` + failed.Reservation + `"`
	run(o,
		documentedCall{"", "GET", "/v1/policies", "", 200},
		documentedCall{"root", "GET", "/v1/policies", "", 200},
		documentedCall{"unknown", "GET", "/v1/policies", "", 401},
		documentedCall{"root", "GET", "/v1/policies?policy=shop/shared", "", 400},
		documentedCall{"", "POST", pathCommit, outcome + `,"cost":1}`, 400},
		documentedCall{"", "POST", pathCommit, outcome + `,"response":{"code":1000}}`, 400},
		documentedCall{"", "POST", pathCommit, outcome + `,"response":{"code":401}}`, 200},
		documentedCall{"", "POST", pathReserve, reserveTokens, 200},
		documentedCall{"", "POST", pathReserve, reserveTokens, 200},
		documentedCall{"", "POST", pathReserve, strings.Replace(reserveTokens, "60", "50", 1), 409},
		documentedCall{"", "POST", pathReserve, strings.Replace(reserveTokens, "r-1", "r-2", 1), 429},
		documentedCall{"", "POST", pathReserve, `{"policies":["shop/tokens"],"costs":{"shop/tokens":1}}`, 200},
		documentedCall{"root", "GET", "/v1/state?policy=shop/tokens&key=bob", "", 200},
		documentedCall{"", "POST", pathRenew, renew, 200},
		documentedCall{"", "POST", pathCommit, commit, 200},
		documentedCall{"", "POST", pathCommit, commit, 200},
		documentedCall{"", "POST", pathRenew, renew, 410},
		documentedCall{"", "POST", pathCharge, chargeTokens, 200},
		documentedCall{"", "POST", pathCharge, chargeTokens, 200},
		documentedCall{"", "POST", pathReserve, `{"policies":["shop/nonesuch"]}`, 404},
		documentedCall{"", "POST", pathCharge, `{"policies":["shop/nonesuch"]}`, 404},
	)
	for _, path := range []string{pathReserve, pathCommit, pathRenew, pathCharge} {
		run(o,
			documentedCall{"", "POST", path, "{}", 400},
			documentedCall{"", "POST", path, strings.Repeat(" ", maxBody+1), 413},
		)
		run(New(Options{Engine: &fakeEngine{}, ClientCertificates: true}), documentedCall{"", "POST", path, "", 403})
	}
	run(New(Options{Engine: &recordingReserver{err: limiter.ErrNotReady}}), documentedCall{"", "POST", pathReserve, reserveTokens, 503})
	return body.Reservation
}

// runOnFakes runs the calls whose answers the real engine does not give.
func (c *contract) runOnFakes(run func(h http.Handler, calls ...documentedCall)) {
	closed := limiter.Decision{Reason: limiter.ReasonStoreUnavailable, Degraded: plan.FailClosed, Policy: "a/b"}
	denied := limiter.Decision{Reason: limiter.ReasonDeniedByOverride, Policy: "a/b", Override: "o"}
	for status, engine := range map[int]Engine{503: answering(closed), 403: answering(denied)} {
		run(New(Options{Engine: engine}),
			documentedCall{"", "POST", pathCheck, `{"policies":["a/b"]}`, status},
			documentedCall{"", "GET", pathAuthorize, "", status},
		)
	}
	limited := limiter.Decision{Allowed: true, Reason: limiter.ReasonAllowed, Limits: []limiter.LimitState{
		{Policy: "a/b", Limit: "l", Allowed: true, Threshold: 2, Algorithm: plan.Suppressed, SuppressionFactor: 0.25},
	}}
	run(New(Options{Engine: answering(limited), Frontend: limiter.FrontendOptions{LegacyHeaders: true}}),
		documentedCall{"", "POST", pathCheck, `{"policies":["a/b"]}`, 200})
	for status, decision := range map[int]limiter.Decision{
		200: {Allowed: true, Reason: limiter.ReasonAllowed, FromSlice: true},
		429: {Reason: limiter.ReasonLimitExceeded, Policy: "a/b", Limit: "l", WaitsFor: limiter.WaitsForSlices, Denial: plan.Denial{Code: "RateLimited"}},
	} {
		run(New(Options{Engine: answering(decision)}), documentedCall{"", "POST", pathCheck, `{"policies":["a/b"]}`, status})
	}
	run(New(Options{Engine: &fakeEngine{}, Authorizer: everything, State: &explainingState{explanation: sampleExplanation()}}),
		documentedCall{"root", "POST", pathExplain, `{"attributes":{}}`, 200})
	run(New(Options{Engine: &fakeEngine{}, Authorizer: everything, State: &fakeState{}}), documentedCall{"root", "GET", pathTop, "", 404})
	run(New(Options{Engine: failing(limiter.ErrNotReady), Healthy: func() error { return context.Canceled }}),
		documentedCall{"", "POST", pathCheck, `{"policies":["a/b"]}`, 503},
		documentedCall{"", "GET", pathPolicies, "", 503},
		documentedCall{"", "GET", pathHealth, "", 503},
		documentedCall{"", "GET", pathReady, "", 503},
	)
	run(New(Options{Engine: &fakeEngine{}, ClientCertificates: true}),
		documentedCall{"", "POST", pathCheck, "", 403},
		documentedCall{"", "GET", pathPolicies, "", 403},
		documentedCall{"", "GET", pathOpenAPI, "", 403},
	)
}
