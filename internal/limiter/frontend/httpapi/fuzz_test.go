// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// decideByCheck derives the decision from the check, so that a fuzzer reaches every answer.
func decideByCheck(_ context.Context, check *limiter.Check) (*limiter.Decision, error) {
	if len(check.Policies) > 1 {
		return nil, &limiter.UnknownPolicyError{Policy: check.Policies[1]}
	}
	d := &limiter.Decision{Allowed: check.Cost%2 == 1, Reason: limiter.ReasonAllowed}
	if !d.Allowed {
		d.Reason, d.RetryAfter = limiter.ReasonLimitExceeded, time.Duration(check.Cost)
		d.Denial.Message = check.Attributes.Principal
		d.Limits = []limiter.LimitState{{Policy: check.Attributes.Host, RetryAfter: d.RetryAfter}}
	}
	return d, nil
}

func FuzzCheckRequest(f *testing.F) {
	for _, seed := range []string{
		namedCheck,
		`{"policies":["a/b"],"key":["\ud83d\ude00","\\\"\/"],"cost":2,"peek":true}`,
		`{"attributes":{"domain":"edge","method":"POST","host":"h","path":"/","principal":"p","headers":{"X-A":"b"},
			"claims":{"jwt":{"sub":"a","n":-1.5e3,"o":{"l":[null,true]}}},"remoteAddress":"::1","descriptors":[{"entries":[{"key":"k","value":"v"}]}]},"cost":1}`,
		`{"policies":["a/b"],"key":"\ud800"}`,
		`{"policies":["a/b"],"cost":1e3}`,
		`{"policies":["a/b"],"key":"a","key":"b"}`,
		`{"unknown\u0000":null}`, `{`, `[]`, ``, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		g := NewWithT(t)
		engine := &fakeEngine{decide: decideByCheck}
		w := sendCheck(engine, string(body))
		g.Expect(w.Code).To(BeElementOf(200, 400, 404, 413, 429))
		g.Expect(json.Valid(w.Body.Bytes())).To(BeTrue())
		if w.Code != 200 {
			decodeProblem(g, w)
		}
		if engine.received != nil {
			expectFaithful(g, body, engine.received)
		}
	})
}

// expectFaithful expects the check to follow the rules of the package and to equal what the
// standard library reads from the body.
func expectFaithful(g *WithT, body []byte, check *limiter.Check) {
	reference := struct {
		Policies   []string
		Key        any
		Attributes *struct {
			Domain, Method, Host, Path, RemoteAddress, Principal string
			Headers                                              map[string]string
			Claims                                               map[string]map[string]any
			Descriptors                                          []struct{ Entries []struct{ Key, Value string } }
		}
		Cost int64
		Peek bool
	}{Cost: 1}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	g.Expect(d.Decode(&reference)).To(Succeed())

	g.Expect(check.Policies).To(Equal(reference.Policies))
	g.Expect(len(check.Policies)).To(BeNumerically("<=", limiter.MaxChain))
	g.Expect(check.Cost).To(And(Equal(reference.Cost), BeNumerically(">=", 1), BeNumerically("<=", plan.MaxCost)))
	g.Expect(check.Peek).To(Equal(reference.Peek))
	switch key := reference.Key.(type) {
	case nil:
		g.Expect(check.Key).To(BeNil())
	case string:
		g.Expect(check.Key).To(Equal([]string{key}))
	default:
		g.Expect(check.Key).To(HaveLen(len(key.([]any))))
		for i, part := range key.([]any) {
			g.Expect(check.Key[i]).To(Equal(part))
		}
	}
	for _, part := range check.Key {
		g.Expect(part != "" && utf8.ValidString(part) && !strings.ContainsFunc(part, unicode.IsControl)).To(BeTrue())
	}
	if want := reference.Attributes; want != nil {
		a := check.Attributes
		g.Expect([]string{a.Method, a.Host, a.Path, a.Principal, a.Domain}).
			To(Equal([]string{want.Method, want.Host, want.Path, want.Principal, want.Domain}))
		g.Expect(a.Descriptors).To(HaveLen(len(want.Descriptors)))
		for i, d := range want.Descriptors {
			g.Expect(a.Descriptors[i]).To(HaveLen(len(d.Entries)))
			for j, e := range d.Entries {
				g.Expect(a.Descriptors[i][j]).To(Equal(plan.Entry(e)))
			}
		}
		g.Expect(a.Claims).To(HaveLen(len(want.Claims)))
		for payload, claims := range want.Claims {
			g.Expect(a.Claims[payload]).To(Equal(plan.ClaimsOf(claims)))
		}
		g.Expect(a.Headers).To(HaveLen(len(want.Headers)))
		for name, value := range want.Headers {
			g.Expect(a.Headers).To(HaveKeyWithValue(strings.ToLower(name), value))
		}
	}
}

// FuzzSingleParameter expects the short way to read a query to read what the standard library does.
func FuzzSingleParameter(f *testing.F) {
	for _, seed := range []string{"", "=", "policy", "policy=a/b", "policy=a=b", "a?b=#", "policy=a%2Fb", "a=b&c=d", "a;b", "a=b+c", "\xff\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		name, value, ok := singleParameter(query)
		if !ok {
			return
		}
		g := NewWithT(t)
		want, err := url.ParseQuery(query)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(want).To(Equal(url.Values{name: {value}}))
	})
}

// FuzzAuthorizePath expects belowAuthorize to cut the escaped path.
func FuzzAuthorizePath(f *testing.F) {
	for _, seed := range []string{"/v1/authorize", "/v1/authorize/a%2Fb", "/v1/authorize?", "/v1/authoriz%65", "/v1%2Fauthorize", "/v1/authorizes", "/", "*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		g := NewWithT(t)
		path, ok := belowAuthorize(u)
		rest, found := strings.CutPrefix(u.EscapedPath(), pathAuthorize)
		g.Expect(ok).To(Equal(found && (rest == "" || strings.HasPrefix(rest, "/"))))
		if ok {
			g.Expect(path).To(Equal(rest))
		}
	})
}
