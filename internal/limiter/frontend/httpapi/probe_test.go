// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// issue returns a code that the account gets.
func (o *onRedis) issue(account, body string) string {
	o.t.Helper()
	g := NewWithT(o.t)
	w := o.as(account, http.MethodPost, pathProbes, body)
	g.Expect(w.Code).To(Equal(http.StatusOK), w.Body.String())
	g.Expect(w.Header().Get("Cache-Control")).To(Equal("no-store"))
	code := httptypes.ProbeCode{}
	g.Expect(json.Unmarshal(w.Body.Bytes(), &code)).To(Succeed())
	g.Expect(code).To(Equal(httptypes.ProbeCode{Header: "X-Weir-Probe", Code: code.Code, AnswerHeader: "Weir-Probe", ExpiresInSeconds: 60}))
	return code.Code
}

// authorizeWith sends a HEAD request as a proxy forwards it, with the headers.
func (o *onRedis) authorizeWith(target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodHead, target, http.NoBody)
	r.RemoteAddr = loopback
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	o.ServeHTTP(w, r)
	return w
}

func TestProbeIsAnsweredByForwardAuth(t *testing.T) {
	g, c, o := NewWithT(t), loadContract(t), newOnRedis(t)
	const target = pathAuthorize + "?policy=shop/shared&target=HTTPRoute/shop/cart"
	code := o.issue("unblocker", `{"namespace":"shop","method":"POST"}`)
	g.Expect(o.log.String()).To(And(ContainSubstring(`"msg":"Issued the code of a probe","user":"unblocker","credentialID":"JTI=unblocker","namespace":"shop"`),
		Not(ContainSubstring(code))))
	w := o.authorizeWith(target, "X-Weir-Probe", code)
	g.Expect(w.Code).To(Equal(http.StatusForbidden))
	g.Expect(w.Header().Get("Cache-Control")).To(Equal("no-store"))
	g.Expect(w.Header().Get("Weir-Probe")).To(MatchJSON(`{"door":"forward-auth","targets":["HTTPRoute/shop/cart"],"method":"HEAD","host":"example.com",
		"path":"","remoteAddress":"127.0.0.1","policies":["shop/shared"]}`))
	g.Expect(c.violation(httptest.NewRequest(http.MethodHead, target, http.NoBody), "", w)).To(BeEmpty())

	g.Expect(o.as("root", http.MethodGet, "/v1/state?policy=shop/shared", "").Body.String()).To(ContainSubstring(`"used":0`), "nothing was spent")
	w = o.authorizeWith(target, "X-Weir-Probe", code)
	g.Expect(w.Code).To(Equal(http.StatusOK), "decided as any other: the code was used")
	g.Expect(w.Header().Get("Weir-Probe")).To(BeEmpty())
	g.Expect(o.as("root", http.MethodGet, "/v1/state?policy=shop/shared", "").Body.String()).To(ContainSubstring(`"used":1`))

	w = o.authorizeWith(pathAuthorize+"/cart/../login?policy=shop/shared", "X-Weir-Probe", o.issue("root", `{"namespace":"shop"}`))
	g.Expect(w.Code).To(Equal(http.StatusForbidden))
	g.Expect(w.Header().Get("Weir-Probe")).To(And(ContainSubstring(`"path":"/login"`), ContainSubstring(`"policies":[]`)), "the query belongs to the request")
	w = o.authorizeWith(pathAuthorize+"?deny=1", "X-Weir-Probe", o.issue("root", `{"namespace":"shop"}`))
	g.Expect(w.Code).To(Equal(http.StatusForbidden))
	g.Expect(w.Header().Get("Weir-Probe")).To(ContainSubstring(`"problem":"deny: `))
}

// The code is not an attribute: no policy can match it or use it as a key.
func TestProbeHeaderIsNotAnAttribute(t *testing.T) {
	g, e := NewWithT(t), &fakeEngine{}
	r := httptest.NewRequest(http.MethodGet, pathAuthorize, http.NoBody)
	r.Header.Set("X-Weir-Probe", strings.Repeat("A", 26))
	r.Header.Set("X-Other", "a")
	w := httptest.NewRecorder()
	newHandler(e).ServeHTTP(w, r)
	g.Expect(w.Code).To(Equal(http.StatusOK))
	g.Expect(e.received.Attributes.Headers).To(Equal(map[string]string{"x-other": "a"}))
}

func TestProbeRequests(t *testing.T) {
	o := newOnRedis(t)
	for body, want := range map[string]int{
		`{"namespace":"shop"}`:                200,
		`{"namespace":"shop","method":"GET"}`: 200,
		`{}`:                                  403, // all Namespaces
		`{"namespace":"bank"}`:                403,
		`{"namespace":"shop/a"}`:              400,
		`{"namespace":"` + strings.Repeat("a", 64) + `"}`: 400,
		`{"namespace":"shop","method":"get"}`:             400,
		`{"namespace":"shop","method":"G\u0000"}`:         400,
		`{"namespace":"shop","policy":"a"}`:               400,
		`{"namespace":"shop","namespace":"shop"}`:         400,
		`{"namespace":"shop"}{}`:                          400,
		`[]`:                                              400,
	} {
		w := o.as("root", http.MethodPost, pathProbes, body)
		NewWithT(t).Expect(w.Code).To(Equal(want), body+": "+w.Body.String())
	}
	NewWithT(t).Expect(o.log.String()).NotTo(ContainSubstring("panicked"))
}
