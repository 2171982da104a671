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

	"github.com/weir-dev/weir/internal/testenv"
)

// stateCalls is one request for each verb.
var stateCalls = map[Verb]struct{ method, target, body string }{
	VerbInspect: {"GET", "/v1/state?policy=shop/a&key=k", ""},
	VerbReset:   {"POST", pathReset, `{"policy":"shop/a","key":"k"}`},
	VerbBlock:   {"POST", pathBlock, `{"policy":"shop/a","key":"k","duration":"1m"}`},
	VerbUnblock: {"POST", pathUnblock, `{"policy":"shop/a","key":"k"}`},
}

// Each verb is a right of its own, and nothing is touched without it.
func TestRights(t *testing.T) {
	may := map[string]Verb{"eyes": VerbInspect, "eraser": VerbReset, "stopper": VerbBlock, "lifter": VerbUnblock}
	for verb, call := range stateCalls {
		for token, want := range map[string]int{
			"root": 200, "eyes": 403, "eraser": 403, "stopper": 403, "lifter": 403, "nobody": 401, "unjudged": 503,
		} {
			if may[token] == verb {
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
				g.Expect(strings.Contains(log.String(), "level=ERROR")).To(Equal(want == 503))
			})
		}
	}
}

func TestHowTokensAreShown(t *testing.T) {
	const stranger = "192.0.2.1:4711"
	https := &tls.ConnectionState{}
	for name, tc := range map[string]struct {
		peer    string
		tls     *tls.ConnectionState
		headers []string
		want    int
	}{
		"from this machine":           {loopback, nil, []string{"Authorization: Bearer root"}, 200},
		"from this machine, IPv6":     {"[::1]:4711", nil, []string{"Authorization: Bearer root"}, 200},
		"from this machine, mapped":   {"[::ffff:127.0.0.1]:4711", nil, []string{"Authorization: Bearer root"}, 200},
		"over TLS":                    {stranger, https, []string{"Authorization: Bearer root"}, 200},
		"in plain text":               {stranger, nil, []string{"Authorization: Bearer root"}, 403},
		"in plain text, no token":     {stranger, nil, nil, 403},
		"claiming to be from here":    {stranger, nil, []string{"Authorization: Bearer root", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "X-Real-IP: 127.0.0.1"}, 403},
		"claiming TLS":                {stranger, nil, []string{"Authorization: Bearer root", "X-Forwarded-Proto: https"}, 403},
		"from a peer without address": {"@", nil, []string{"Authorization: Bearer root"}, 403},
		"the scheme in any case":      {loopback, nil, []string{"Authorization: bEARER root"}, 200},
		"after two spaces":            {loopback, nil, []string{"Authorization: Bearer  root"}, 200},
		"no token":                    {loopback, nil, nil, 401},
		"an empty one":                {loopback, nil, []string{"Authorization: Bearer "}, 401},
		"no scheme":                   {loopback, nil, []string{"Authorization: root"}, 401},
		"another scheme":              {loopback, nil, []string{"Authorization: Basic root"}, 401},
		"two of them":                 {loopback, nil, []string{"Authorization: Bearer root", "Authorization: Bearer nobody"}, 401},
		"in another header":           {loopback, nil, []string{"X-Token: root"}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			g, state := NewWithT(t), &fakeState{}
			r := httptest.NewRequest(http.MethodPost, pathReset, strings.NewReader(`{"policy":"shop/a"}`))
			r.RemoteAddr, r.TLS = tc.peer, tc.tls
			for _, header := range tc.headers {
				key, value, _ := strings.Cut(header, ": ")
				r.Header.Add(key, value)
			}
			w := httptest.NewRecorder()
			New(Options{Engine: &fakeEngine{}, State: state, Authorizer: team}).ServeHTTP(w, r)
			g.Expect(w.Code).To(Equal(tc.want), w.Body.String())
			g.Expect(state.calls).To(Equal(map[int]int{200: 1}[tc.want]))
		})
	}
}

// Whoever has no right to a policy cannot tell whether it exists, and without a
// token the body is not even read.
func TestStrangersLearnNothing(t *testing.T) {
	g, o := NewWithT(t), operate(t)
	for _, token := range []string{"nobody", "eyes"} {
		known := o.as(token, http.MethodPost, pathReset, `{"policy":"shop/login","key":"a"}`)
		unknown := o.as(token, http.MethodPost, pathReset, `{"policy":"shop/nonesuch","key":"a"}`)
		g.Expect(unknown.Code).To(Equal(known.Code))
		g.Expect(unknown.Body.String()).To(Equal(known.Body.String()))
	}
	body := &readCounter{}
	r := httptest.NewRequest(http.MethodPost, pathReset, body)
	r.RemoteAddr = loopback
	w := httptest.NewRecorder()
	o.ServeHTTP(w, r)
	g.Expect(w.Code).To(Equal(http.StatusUnauthorized))
	g.Expect(body.reads).To(BeZero())
}

type readCounter struct{ reads int }

func (c *readCounter) Read([]byte) (int, error) { c.reads++; return 0, io.EOF }

func TestNoPathsWithoutAnAuthorizer(t *testing.T) {
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

// A token is no certificate: where clients need one, operators do as well.
func TestStateWantsClientCertificates(t *testing.T) {
	g := NewWithT(t)
	h := New(Options{Engine: &fakeEngine{}, State: &fakeState{}, Authorizer: team, ClientCertificates: true})
	for _, call := range stateCalls {
		w := sendAs(h, "root", call.method, call.target, call.body)
		g.Expect(w.Code).To(Equal(http.StatusForbidden))
		g.Expect(decodeProblem(g, w).Code).To(Equal(codeNoCertificate))
	}
}

// gone is an Authorizer that is asked on behalf of somebody who hangs up.
type gone struct{ hangUp func() }

func (a gone) Authorize(ctx context.Context, _ string, _ Verb, _, _ string) (string, error) {
	a.hangUp()
	return "", ctx.Err()
}

func TestCallerHangsUpWhileItIsJudged(t *testing.T) {
	g := NewWithT(t)
	ctx, hangUp := context.WithCancel(t.Context())
	var log testenv.Log
	r := httptest.NewRequest(http.MethodGet, "/v1/state?policy=shop/a", nil).WithContext(ctx)
	r.RemoteAddr = loopback
	r.Header.Set("Authorization", "Bearer root")
	w := httptest.NewRecorder()
	New(Options{
		Engine: &fakeEngine{}, State: &fakeState{}, Authorizer: gone{hangUp}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}).ServeHTTP(w, r)
	g.Expect(w.Code).To(Equal(statusClientClosed))
	g.Expect(log.String()).To(BeEmpty())
}

func TestTokenFile(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "token")
	write := func(text string) { g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed()) }
	authorize := func(token string) error {
		_, err := TokenFile(path).Authorize(t.Context(), token, VerbReset, "shop", "a")
		return err
	}
	_, err := NewTokenFile(path)
	g.Expect(err).To(MatchError(ContainSubstring("no such file")))
	write(" \n")
	_, err = NewTokenFile(path)
	g.Expect(err).To(MatchError(ContainSubstring("contains no token")))
	write("two words\n")
	_, err = NewTokenFile(path)
	g.Expect(err).To(MatchError(ContainSubstring("more than one word")))

	write("first\n")
	_, err = NewTokenFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(authorize("first")).To(Succeed())
	for _, wrong := range []string{"", "firs", "first ", "First", "second"} {
		g.Expect(authorize(wrong)).To(MatchError(ErrUnauthenticated), wrong)
	}
	write("second")
	g.Expect(authorize("second")).To(Succeed(), "a new token holds at once")
	g.Expect(authorize("first")).To(MatchError(ErrUnauthenticated))

	// A file that is lost or emptied lets nobody in, also not with an empty token.
	write("")
	g.Expect(authorize("")).To(And(HaveOccurred(), Not(MatchError(ErrUnauthenticated))))
	g.Expect(os.Remove(path)).To(Succeed())
	g.Expect(authorize("second")).To(And(HaveOccurred(), Not(MatchError(ErrUnauthenticated))))
}
