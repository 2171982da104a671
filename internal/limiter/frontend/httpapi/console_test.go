// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// fakeConsole has one page, and gives the token as the code.
type fakeConsole struct{}

func (fakeConsole) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	writeText(w, http.StatusOK, "console")
}

func (fakeConsole) NewCode(token, claimedUser string) (path string, valid time.Duration) {
	return "/console/login?code=" + token + "-" + claimedUser, 30 * time.Second
}

func TestConsoleIsOnTheOperatorPort(t *testing.T) {
	g := NewWithT(t)
	o := Options{Engine: &fakeEngine{}, State: &fakeState{}, Authorizer: team, Console: fakeConsole{}}
	h := NewOperator(o, "127.0.0.1:8083")
	for path, want := range map[string]int{
		"/console": 200, "/console/": 200, "/console/x/y": 200, "/consolex": 404, "/": 303, "/v1/console/x": 404,
	} {
		g.Expect(askOperator(h, "", "localhost", path).Code).To(Equal(want), path)
		g.Expect(askOperator(h, "", "evil.example", path).Code).To(Equal(http.StatusMisdirectedRequest), path)
		g.Expect(askOperator(New(o), "", "localhost", path).Code).To(Equal(http.StatusNotFound), path)
	}
	g.Expect(SpanName(httptest.NewRequest(http.MethodGet, "/console/login?code=x", http.NoBody))).To(Equal("console"))
	o.Authorizer = nil
	g.Expect(NewOperator(o, "127.0.0.1:8083").routes).NotTo(HaveKey(pathCode))
}

func TestConsoleCode(t *testing.T) {
	g := NewWithT(t)
	h := NewOperator(Options{Engine: &fakeEngine{}, State: &fakeState{}, Authorizer: team, Console: fakeConsole{}}, "localhost:8083")
	for token, want := range map[string]int{"lister": 200, "blocker": 200, "unknown": 401, "unreachable": 503, "flood": 503} {
		r := httptest.NewRequest(http.MethodPost, pathCode, http.NoBody)
		r.RemoteAddr, r.Host = loopback, "localhost"
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set(HeaderClaimedUser, strings.Repeat("a", 300))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		g.Expect(w.Code).To(Equal(want), token)
		if want == http.StatusOK {
			g.Expect(w.Header().Get("Cache-Control")).To(Equal("no-store"))
			g.Expect(w.Body.String()).To(MatchJSON(`{"path":"/console/login?code=` + token + "-" + strings.Repeat("a", maxClaimedUser) + `","expiresInSeconds":30}`))
		}
	}
	r := httptest.NewRequest(http.MethodPost, pathCode, http.NoBody)
	r.RemoteAddr, r.Host = stranger, "localhost"
	r.Header.Set("Authorization", "Bearer lister")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	g.Expect(w.Code).To(Equal(http.StatusForbidden), "a token in plain text")
}
