// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// stateCalls is one request for each verb.
var stateCalls = map[Verb]struct{ method, target, body string }{
	VerbInspect: {"GET", "/v1/state?policy=shop/a&key=k", ""},
	VerbReset:   {"POST", pathReset, `{"policy":"shop/a","key":"k"}`},
	VerbBlock:   {"POST", pathBlock, `{"policy":"shop/a","key":"k","duration":"1m"}`},
	VerbUnblock: {"POST", pathUnblock, `{"policy":"shop/a","key":"k"}`},
}

// Each verb needs its own right. A denied call changes no state.
func TestEachVerbNeedsItsRight(t *testing.T) {
	right := map[string]Verb{"inspector": VerbInspect, "resetter": VerbReset, "blocker": VerbBlock, "unblocker": VerbUnblock}
	for verb, call := range stateCalls {
		for token, want := range map[string]int{
			"root": 200, "inspector": 403, "resetter": 403, "blocker": 403, "unblocker": 403, "unknown": 401, "unreachable": 503, "flood": 503,
		} {
			if right[token] == verb {
				want = 200
			}
			t.Run(string(verb)+" by "+token, func(t *testing.T) {
				g, state := NewWithT(t), &fakeState{}
				var log testenv.Log
				h := New(Options{Engine: &fakeEngine{}, State: state, Authorizer: team, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				w := sendAs(h, token, call.method, call.target, call.body)
				g.Expect(w.Code).To(Equal(want), w.Body.String())
				g.Expect(state.calls).To(Equal(map[int]int{200: 1}[want]))
				g.Expect(w.Header().Get("WWW-Authenticate")).To(Equal(map[int]string{401: `Bearer realm="weir"`}[want]))
				if want != 200 {
					g.Expect(decodeProblem(g, w).Code).To(Equal(map[int]string{401: codeUnauthenticated, 403: codeForbidden, 503: codeUnavailable}[want]))
				}
				g.Expect(strings.Contains(log.String(), "level=ERROR")).To(Equal(token == "unreachable"), "a flood of tokens is no flood of log lines")
			})
		}
	}
}

// expectReset sends a reset with headers of the form "Name: value". It expects the status, and
// a call of the state only for status 200.
func expectReset(t *testing.T, peer string, connection *tls.ConnectionState, headers []string, want int) {
	t.Helper()
	g, state := NewWithT(t), &fakeState{}
	r := httptest.NewRequest(http.MethodPost, pathReset, strings.NewReader(`{"policy":"shop/a"}`))
	r.RemoteAddr, r.TLS = peer, connection
	for _, header := range headers {
		key, value, _ := strings.Cut(header, ": ")
		r.Header.Add(key, value)
	}
	w := httptest.NewRecorder()
	New(Options{Engine: &fakeEngine{}, State: state, Authorizer: team}).ServeHTTP(w, r)
	g.Expect(w.Code).To(Equal(want), w.Body.String())
	g.Expect(state.calls).To(Equal(map[int]int{200: 1}[want]))
}

func TestTokensNeedTLSOrLoopback(t *testing.T) {
	const token = "Authorization: Bearer root"
	https := &tls.ConnectionState{}
	for name, tc := range map[string]struct {
		peer    string
		tls     *tls.ConnectionState
		headers []string
		want    int
	}{
		"from this machine":           {loopback, nil, []string{token}, 200},
		"from this machine, IPv6":     {"[::1]:4711", nil, []string{token}, 200},
		"from this machine, mapped":   {"[::ffff:127.0.0.1]:4711", nil, []string{token}, 200},
		"over TLS":                    {stranger, https, []string{token}, 200},
		"over plain HTTP":             {stranger, nil, []string{token}, 403},
		"over plain HTTP, no token":   {stranger, nil, nil, 403},
		"forwarded from this machine": {stranger, nil, []string{token, "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "X-Real-IP: 127.0.0.1"}, 403},
		"forwarded over TLS":          {stranger, nil, []string{token, "X-Forwarded-Proto: https"}, 403},
		"from a peer without address": {"@", nil, []string{token}, 403},
	} {
		t.Run(name, func(t *testing.T) { expectReset(t, tc.peer, tc.tls, tc.headers, tc.want) })
	}
}

func TestTokensNeedOneBearerHeader(t *testing.T) {
	for name, tc := range map[string]struct {
		headers []string
		want    int
	}{
		"the scheme in any case": {[]string{"Authorization: bEARER root"}, 200},
		"after two spaces":       {[]string{"Authorization: Bearer  root"}, 200},
		"no token":               {nil, 401},
		"an empty token":         {[]string{"Authorization: Bearer "}, 401},
		"no scheme":              {[]string{"Authorization: root"}, 401},
		"another scheme":         {[]string{"Authorization: Basic root"}, 401},
		"two tokens":             {[]string{"Authorization: Bearer root", "Authorization: Bearer unknown"}, 401},
		"in another header":      {[]string{"X-Token: root"}, 401},
	} {
		t.Run(name, func(t *testing.T) { expectReset(t, loopback, nil, tc.headers, tc.want) })
	}
}

// A caller without a right to a policy cannot find out whether it exists.
func TestDeniedCallsDoNotRevealPolicies(t *testing.T) {
	g, o := NewWithT(t), newOnRedis(t)
	for _, token := range []string{"unknown", "inspector"} {
		known := o.as(token, http.MethodPost, pathReset, `{"policy":"shop/login","key":"a"}`)
		unknown := o.as(token, http.MethodPost, pathReset, `{"policy":"shop/nonesuch","key":"a"}`)
		g.Expect(unknown.Code).To(Equal(known.Code))
		g.Expect(unknown.Body.String()).To(Equal(known.Body.String()))
	}
}

func TestBodyIsNotReadWithoutAToken(t *testing.T) {
	g := NewWithT(t)
	h := New(Options{Engine: &fakeEngine{}, State: &fakeState{}, Authorizer: team})
	body := &readCounter{}
	r := httptest.NewRequest(http.MethodPost, pathReset, body)
	r.RemoteAddr = loopback
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	g.Expect(w.Code).To(Equal(http.StatusUnauthorized))
	g.Expect(body.reads).To(BeZero())
}

type readCounter struct{ reads int }

func (c *readCounter) Read([]byte) (int, error) { c.reads++; return 0, io.EOF }

func TestStatePathsNeedAnAuthorizer(t *testing.T) {
	for name, o := range map[string]Options{
		"no authorizer": {State: &fakeState{}},
		"no state":      {Authorizer: team},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o.Engine = &fakeEngine{}
			for _, call := range stateCalls {
				w := sendAs(New(o), "root", call.method, call.target, call.body)
				g.Expect(w.Code).To(Equal(http.StatusNotFound))
				g.Expect(decodeProblem(g, w).Code).To(Equal(codeNotFound))
			}
		})
	}
}

// A token does not replace a client certificate.
func TestStatePathsNeedClientCertificates(t *testing.T) {
	g := NewWithT(t)
	h := New(Options{Engine: &fakeEngine{}, State: &fakeState{}, Authorizer: team, ClientCertificates: true})
	for _, call := range stateCalls {
		w := sendAs(h, "root", call.method, call.target, call.body)
		g.Expect(w.Code).To(Equal(http.StatusForbidden))
		g.Expect(decodeProblem(g, w).Code).To(Equal(codeNoCertificate))
	}
}

// hangingUp is an Authorizer during whose call the client hangs up.
type hangingUp struct{ hangUp func() }

func (a hangingUp) Authorize(ctx context.Context, _ string, _ Verb, _, _ string) (Caller, error) {
	a.hangUp()
	return Caller{}, ctx.Err()
}

func TestCallerHangsUpDuringAuthorization(t *testing.T) {
	g := NewWithT(t)
	ctx, hangUp := context.WithCancel(t.Context())
	var log testenv.Log
	r := httptest.NewRequest(http.MethodGet, "/v1/state?policy=shop/a", nil).WithContext(ctx)
	r.RemoteAddr = loopback
	r.Header.Set("Authorization", "Bearer root")
	w := httptest.NewRecorder()
	New(Options{
		Engine: &fakeEngine{}, State: &fakeState{}, Authorizer: hangingUp{hangUp}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}).ServeHTTP(w, r)
	g.Expect(w.Code).To(Equal(statusClientClosed))
	g.Expect(log.String()).To(BeEmpty())
}

// tokenFile is a file with a token in a folder of the test.
type tokenFile struct {
	*WithT
	t    *testing.T
	path string
}

func newTokenFile(t *testing.T, text string) *tokenFile {
	t.Helper()
	f := &tokenFile{WithT: NewWithT(t), t: t, path: filepath.Join(t.TempDir(), "token")}
	f.write(text)
	return f
}

func (f *tokenFile) write(text string) {
	f.t.Helper()
	f.Expect(os.WriteFile(f.path, []byte(text), 0o600)).To(Succeed())
}

func (f *tokenFile) authorize(token string) error {
	_, err := TokenFile(f.path).Authorize(f.t.Context(), token, VerbReset, "shop", "a")
	return err
}

func TestTokenFileNeedsOneToken(t *testing.T) {
	for text, want := range map[string]string{" \n": "contains no token", "two words\n": "more than one word"} {
		f := newTokenFile(t, text)
		_, err := NewTokenFile(f.path)
		f.Expect(err).To(MatchError(ContainSubstring(want)))
	}
}

func TestTokenFileNeedsAFile(t *testing.T) {
	_, err := NewTokenFile(filepath.Join(t.TempDir(), "token"))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("no such file")))
}

func TestTokenFileAcceptsItsToken(t *testing.T) {
	f := newTokenFile(t, "first\n")
	_, err := NewTokenFile(f.path)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.authorize("first")).To(Succeed())
	for _, wrong := range []string{"", "firs", "first ", "First", "second"} {
		f.Expect(f.authorize(wrong)).To(MatchError(ErrUnauthenticated), wrong)
	}
}

func TestTokenFileIsReadForEachCall(t *testing.T) {
	f := newTokenFile(t, "first\n")
	f.Expect(f.authorize("first")).To(Succeed())
	f.write("second")
	f.Expect(f.authorize("second")).To(Succeed())
	f.Expect(f.authorize("first")).To(MatchError(ErrUnauthenticated))
}

// A missing or empty file authorizes no token, not even an empty one.
func TestLostTokenFileAuthorizesNoToken(t *testing.T) {
	f := newTokenFile(t, "second")
	f.Expect(f.authorize("second")).To(Succeed())
	f.write("")
	f.Expect(f.authorize("")).To(And(HaveOccurred(), Not(MatchError(ErrUnauthenticated))))
	f.Expect(os.Remove(f.path)).To(Succeed())
	f.Expect(f.authorize("second")).To(And(HaveOccurred(), Not(MatchError(ErrUnauthenticated))))
}
