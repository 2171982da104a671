// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// recordingReserver keeps the last request and answers it, or fails with err.
type recordingReserver struct {
	fakeEngine

	reserve  *limiter.Reserve
	commit   *limiter.Commit
	renew    *limiter.Renew
	charge   *limiter.Charge
	answer   limiter.Committed
	err      error
	canceled bool // the context of the last call ended with the context of its request
}

func (e *recordingReserver) Reserve(_ context.Context, r *limiter.Reserve) (*limiter.Decision, error) {
	copied := *r
	copied.Check = *cloneCheck(&r.Check)
	e.reserve = &copied
	return &limiter.Decision{
		Allowed: true, Reason: limiter.ReasonAllowed, Reservation: &limiter.Reservation{ID: "r-1"},
		Limits: []limiter.LimitState{{Policy: "a/b", Limit: "l", Allowed: true, Used: 9, Held: 7, Threshold: 10, Quota: 10, Remaining: 1}},
	}, e.err
}

func (e *recordingReserver) Commit(ctx context.Context, c *limiter.Commit) (*limiter.Committed, error) {
	e.commit, e.canceled = c, ctx.Done() != nil
	return &e.answer, e.err
}

func (e *recordingReserver) Renew(ctx context.Context, r *limiter.Renew) (*limiter.Renewed, error) {
	e.renew, e.canceled = r, ctx.Done() != nil
	return &limiter.Renewed{Policies: []limiter.RenewedPolicy{{Policy: "a/b", Renewed: true}}, Revision: 3}, e.err
}

func (e *recordingReserver) Charge(ctx context.Context, c *limiter.Charge) (*limiter.Charged, error) {
	copied := *c
	copied.Check = *cloneCheck(&c.Check)
	e.charge, e.canceled = &copied, ctx.Done() != nil
	return &limiter.Charged{Charged: true, Revision: 3}, e.err
}

func reservationText(json string) string { return base64.RawURLEncoding.EncodeToString([]byte(json)) }

var someReservation = reservationText(`{"v":1,"id":"r-1","holds":[{"policy":"a/b","units":7},{"policy":"a/c","units":1}]}`)

func TestReserveRequestsAreDecoded(t *testing.T) {
	check := limiter.Check{Policies: []string{"a/b"}, Cost: 1}
	costing := func(cost int64) limiter.Check {
		c := check
		c.Cost = cost
		return c
	}
	for name, tc := range map[string]struct {
		body string
		want limiter.Reserve
	}{
		"by default":    {`{"policies":["a/b"]}`, limiter.Reserve{Check: check}},
		"with a ttl":    {`{"policies":["a/b"],"cost":1000000000000,"ttl":"1m30s"}`, limiter.Reserve{Check: costing(1e12), TTL: 90 * time.Second}},
		"with an id":    {`{"policies":["a/b"],"id":"r/1"}`, limiter.Reserve{Check: check, ID: "r/1"}},
		"with costs":    {`{"policies":["a/b"],"costs":{"a/b":7,"a/c":1}}`, limiter.Reserve{Check: check, Costs: limiter.Costs{"a/b": 7, "a/c": 1}}},
		"of attributes": {`{"attributes":{"host":"h"}}`, limiter.Reserve{Check: limiter.Check{Cost: 1, Attributes: plan.Attributes{Host: "h"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			e := &recordingReserver{}
			w := send(newHandler(e), http.MethodPost, pathReserve, tc.body)
			g.Expect(w.Code).To(Equal(200), w.Body.String())
			g.Expect(*e.reserve).To(Equal(tc.want))
			g.Expect(w.Body.String()).To(MatchJSON(`{"allowed":true,"reason":"Allowed","policy":"","limit":"","limits":[
				{"policy":"a/b","limit":"l","allowed":true,"used":9,"held":7,"threshold":10,"remaining":1,"retryAfterMs":0,
				"remainingAfterWaiting":0,"resetAfterMs":0,"shadow":false}],
				"revision":0,"reservation":"` + reservationText(`{"v":1,"id":"r-1"}`) + `"}`))
			g.Expect(w.Header()).To(HaveKeyWithValue(answer.HeaderRateLimit, []string{`"a/b-l";r=1;t=0`}), "held units are used")
		})
	}
}

func TestCommitsAreDecoded(t *testing.T) {
	for name, tc := range map[string]struct {
		members  string
		cost     int64
		costs    limiter.Costs
		response *limiter.Response
	}{
		"a cost":         {`"cost":1000000000000`, 1e12, nil, nil},
		"a cancellation": {`"cost":0`, 0, nil, nil},
		"costs":          {`"costs":{"a/b":0,"a/c":5}`, 0, limiter.Costs{"a/b": 0, "a/c": 5}, nil},
		"an outcome":     {`"response":{"code":401}`, limiter.NoCost, nil, &limiter.Response{Code: 401}},
		"no outcome":     {`"response":{},"cost":3`, 3, nil, &limiter.Response{}},
		"both":           {`"costs":{"a/b":7},"response":{"code":0}`, 0, limiter.Costs{"a/b": 7}, &limiter.Response{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			e := &recordingReserver{answer: limiter.Committed{Revision: 3, Policies: []limiter.CommittedPolicy{
				{Policy: "a/b", Override: "gold", Committed: true, Cost: 5, Estimate: 7}, {Policy: "a/c", Gone: true},
			}}}
			w := send(newHandler(e), http.MethodPost, pathCommit, `{"reservation":"`+someReservation+`",`+tc.members+`}`)
			g.Expect(w.Code).To(Equal(200), w.Body.String())
			g.Expect(e.commit.Cost).To(Equal(tc.cost))
			g.Expect(e.commit.Costs).To(Equal(tc.costs))
			g.Expect(e.commit.Response).To(Equal(tc.response))
			g.Expect(e.commit.Reservation.Encode()).To(Equal(someReservation))
			g.Expect(w.Body.String()).To(MatchJSON(`{"committed":true,"revision":3,"policies":[
				{"policy":"a/b","override":"gold","committed":true,"cost":5,"estimate":7,"limits":[]},
				{"policy":"a/c","committed":false,"gone":true,"cost":0,"estimate":0,"limits":[]}]}`))
		})
	}
}

func TestRenewalsAndChargesAreDecoded(t *testing.T) {
	g := NewWithT(t)
	e := &recordingReserver{}
	w := send(newHandler(e), http.MethodPost, pathRenew, `{"reservation":"`+someReservation+`","ttl":"2m"}`)
	g.Expect(w.Body.String()).To(MatchJSON(`{"renewed":true,"policies":[{"policy":"a/b","renewed":true}],"revision":3}`))
	g.Expect(e.renew.TTL).To(Equal(2 * time.Minute))
	g.Expect(send(newHandler(e), http.MethodPost, pathRenew, `{"reservation":"`+someReservation+`"}`).Code).To(Equal(200))
	g.Expect(e.renew.TTL).To(BeZero())
	w = send(newHandler(e), http.MethodPost, pathCharge, `{"policies":["a/b"],"key":"alice","cost":5,"id":"c-1"}`)
	g.Expect(w.Body.String()).To(MatchJSON(`{"charged":true,"limits":[],"revision":3}`))
	g.Expect(*e.charge).To(Equal(limiter.Charge{Check: limiter.Check{Policies: []string{"a/b"}, Key: []string{"alice"}, Cost: 5}, ID: "c-1"}))
	g.Expect(send(newHandler(e), http.MethodPost, pathCharge, `{"policies":["a/b"]}`).Code).To(Equal(200))
	g.Expect(e.charge.Check.Cost).To(Equal(int64(1)))
	g.Expect(e.canceled).To(BeFalse(), "a caller that disconnects does not cancel the change")
}

func TestInvalidReservationRequestsAreRejected(t *testing.T) {
	in := func(members string) string { return `{"reservation":"` + someReservation + `",` + members + `}` }
	for name, tc := range map[string]struct{ path, body, field string }{
		"an empty body":               {pathReserve, "", ""},
		"no policies":                 {pathReserve, `{"cost":1}`, "policies"},
		"an unknown member":           {pathReserve, `{"policies":["a/b"],"ttls":"1m"}`, "ttls"},
		"an estimate of 0":            {pathReserve, `{"policies":["a/b"],"cost":0}`, "cost"},
		"a cost and costs":            {pathReserve, `{"policies":["a/b"],"cost":1,"costs":{"a/b":1}}`, "cost"},
		"no costs":                    {pathReserve, `{"policies":["a/b"],"costs":{}}`, "costs"},
		"costs in a list":             {pathReserve, `{"policies":["a/b"],"costs":[1]}`, "costs"},
		"an estimate of 0 in costs":   {pathReserve, `{"policies":["a/b"],"costs":{"a/b":0}}`, `costs["a/b"]`},
		"a policy twice in costs":     {pathReserve, `{"policies":["a/b"],"costs":{"a/b":1,"a/b":2}}`, `costs["a/b"]`},
		"a policy by its name":        {pathReserve, `{"policies":["a/b"],"costs":{"b":1}}`, `costs["b"]`},
		"17 costs":                    {pathReserve, `{"policies":["a/b"],"costs":{` + many(17, `"a/p%d":1`) + `}}`, "costs"},
		"a ttl of 0":                  {pathReserve, `{"policies":["a/b"],"ttl":"0s"}`, "ttl"},
		"a ttl in seconds":            {pathReserve, `{"policies":["a/b"],"ttl":60}`, "ttl"},
		"an empty id":                 {pathReserve, `{"policies":["a/b"],"id":""}`, "id"},
		"a long id":                   {pathReserve, `{"policies":["a/b"],"id":"` + strings.Repeat("i", maxText+1) + `"}`, "id"},
		"a commit without a cost":     {pathCommit, `{"reservation":"` + someReservation + `"}`, "cost"},
		"a negative cost":             {pathCommit, in(`"cost":-1`), "cost"},
		"a leading zero":              {pathCommit, in(`"cost":00`), "cost"},
		"a large cost":                {pathCommit, in(`"cost":1000000000001`), "cost"},
		"a cost and costs of commits": {pathCommit, in(`"cost":1,"costs":{"a/b":1,"a/c":1}`), "cost"},
		"a code in words":             {pathCommit, in(`"response":{"code":"401"}`), "response.code"},
		"a code of four digits":       {pathCommit, in(`"response":{"code":1000}`), "response.code"},
		"headers of the response":     {pathCommit, in(`"response":{"code":401,"headers":{}}`), "response.headers"},
		"a response in a list":        {pathCommit, in(`"response":[401]`), "response"},
		"a response of null":          {pathCommit, in(`"response":null`), "response"},
		"a cost, costs, a response":   {pathCommit, in(`"response":{},"cost":1,"costs":{"a/b":1}`), "cost"},
		"a response in a charge":      {pathCharge, `{"policies":["a/b"],"response":{"code":401}}`, "response"},
		"no reservation":              {pathCommit, `{"cost":1}`, "reservation"},
		"a broken reservation":        {pathCommit, `{"reservation":"AAAA","cost":1}`, "reservation"},
		"a ttl of a commit":           {pathCommit, in(`"cost":1,"ttl":"1m"`), "ttl"},
		"a renewal of nothing":        {pathRenew, `{"ttl":"1m"}`, "reservation"},
		"a renewal of 0":              {pathRenew, in(`"ttl":"0s"`), "ttl"},
		"a renewal with a cost":       {pathRenew, in(`"cost":1`), "cost"},
		"a charge of 0":               {pathCharge, `{"policies":["a/b"],"cost":0}`, "cost"},
		"a charge with an empty id":   {pathCharge, `{"policies":["a/b"],"id":""}`, "id"},
		"a charge with a ttl":         {pathCharge, `{"policies":["a/b"],"ttl":"1m"}`, "ttl"},
		"data after the end":          {pathCharge, `{"policies":["a/b"]}{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			e := &recordingReserver{}
			w := send(newHandler(e), http.MethodPost, tc.path, tc.body)
			g.Expect(w.Code).To(Equal(400), w.Body.String())
			g.Expect(decodeProblem(g, w).Field).To(Equal(tc.field))
			g.Expect([]any{e.reserve, e.commit, e.renew, e.charge}).To(HaveEach(BeNil()))
		})
	}
}

func TestErrorsOfReservations(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		status int
		code   string
		field  string
		retry  string
	}{
		"differs":     {limiter.ErrReservationDiffers, 409, "ReservationDiffers", "id", ""},
		"ended":       {limiter.ErrReservationEnded, 410, "ReservationEnded", "reservation", ""},
		"unavailable": {limiter.ErrStoreUnavailable, 503, "StoreUnavailable", "", "1"},
		"not ready":   {limiter.ErrNotReady, 503, "NotReady", "", "1"},
		"a field":     {&limiter.FieldError{Field: "ttl", Problem: "is long"}, 400, "InvalidRequest", "ttl", ""},
		"a policy":    {&limiter.UnknownPolicyError{Policy: "a/b"}, 404, "UnknownPolicy", "policies", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for path, body := range map[string]string{
				pathReserve: `{"attributes":{}}`, pathCommit: `{"reservation":"` + someReservation + `","cost":1}`,
				pathRenew: `{"reservation":"` + someReservation + `"}`, pathCharge: `{"attributes":{}}`,
			} {
				g := NewWithT(t)
				w := send(newHandler(&recordingReserver{err: tc.err}), http.MethodPost, path, body)
				g.Expect(w.Code).To(Equal(tc.status), path)
				problem := decodeProblem(g, w)
				g.Expect([]string{problem.Code, problem.Field}).To(Equal([]string{tc.code, tc.field}))
				g.Expect(w.Header().Get("Retry-After")).To(Equal(tc.retry))
			}
		})
	}
}

// FuzzReservationRequests expects every body to be rejected with a problem, or to have the meaning that the
// standard library reads.
func FuzzReservationRequests(f *testing.F) {
	for _, seed := range []string{
		`{"policies":["a/b"],"key":"k","cost":7,"ttl":"1m","id":"r"}`, `{"policies":["a/b"],"costs":{"a/b":7}}`,
		`{"reservation":"` + someReservation + `","cost":0}`, `{"reservation":"` + someReservation + `","costs":{"a/b":0,"a/c":1}}`,
		`{"reservation":"` + someReservation + `","response":{"code":401}}`,
		`{"reservation":"` + someReservation + `","ttl":"1ms"}`, `{"costs":{"\u0061/b":1,"a/b":1}}`, `{`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		g := NewWithT(t)
		var reference struct {
			Cost  *int64
			Costs limiter.Costs
			ID    string

			Response *limiter.Response
		}
		for _, path := range []string{pathReserve, pathCommit, pathRenew, pathCharge} {
			e := &recordingReserver{}
			w := send(newHandler(e), http.MethodPost, path, string(body))
			if w.Code != 200 {
				g.Expect(w.Code).To(Equal(400))
				decodeProblem(g, w)
				continue
			}
			g.Expect(json.Unmarshal(body, &reference)).To(Succeed())
			switch {
			case e.reserve != nil:
				g.Expect(e.reserve.Costs).To(Equal(reference.Costs))
				g.Expect(e.reserve.ID).To(Equal(reference.ID))
			case e.commit != nil && reference.Cost != nil:
				g.Expect(e.commit.Cost).To(Equal(*reference.Cost))
				g.Expect(e.commit.Response).To(Equal(reference.Response))
			case e.commit != nil:
				g.Expect(e.commit.Costs).To(Equal(reference.Costs))
				g.Expect(e.commit.Response).To(Equal(reference.Response))
			}
		}
	})
}

// Upstreams and logs know the IDs of streams, which Envoy's reservations have, so HTTP accepts no such ID.
func TestIDsOfEnvoyAreRejected(t *testing.T) {
	ofEnvoy := reservationText(`{"v":1,"id":"envoy:stream","holds":[{"policy":"a/b","units":7}]}`)
	for path, body := range map[string]string{
		pathReserve: `{"policies":["a/b"],"id":"envoy:stream"}`,
		pathCharge:  `{"policies":["a/b"],"id":"envoy:stream"}`,
		pathCommit:  `{"reservation":"` + ofEnvoy + `","cost":0}`,
		pathRenew:   `{"reservation":"` + ofEnvoy + `"}`,
	} {
		t.Run(path, func(t *testing.T) {
			g := NewWithT(t)
			e := &recordingReserver{}
			w := send(newHandler(e), http.MethodPost, path, body)
			g.Expect(w.Code).To(Equal(400), w.Body.String())
			g.Expect(decodeProblem(g, w).Detail).To(ContainSubstring("has an id of Envoy"))
			g.Expect([]any{e.reserve, e.charge, e.commit, e.renew}).To(HaveEach(BeNil()))
		})
	}
}

// An ID is all that a commit needs, so only callers with the right to reset the key see the whole one.
func TestReadersSeeNoIDsOfReservations(t *testing.T) {
	g := NewWithT(t)
	state := &fakeState{holds: []limiter.OpenHold{{ID: "4f0c9a77", Units: 7}}}
	h := New(Options{Engine: &fakeEngine{}, State: state, Authorizer: rights{"root": team["root"], "reader": {VerbInspect, VerbList, VerbReveal}}})
	shown := func(token string) string {
		w := sendAs(h, token, http.MethodGet, "/v1/state?policy=shop/a&key=k", "")
		g.Expect(w.Code).To(Equal(200), w.Body.String())
		var out httptypes.KeyState
		g.Expect(json.Unmarshal(w.Body.Bytes(), &out)).To(Succeed())
		g.Expect(out.Reservations).To(HaveLen(1))
		return out.Reservations[0].ID
	}
	g.Expect(shown("root")).To(Equal("4f0c9a77"))
	g.Expect(shown("reader")).To(Equal("4f0c…"))
}
