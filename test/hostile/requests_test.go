// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/test/expressiontest"
)

// attributes are the attributes of a check, as in the body of /v1/check.
type attributes struct {
	Method        string              `json:"method,omitempty"`
	Host          string              `json:"host"`
	Path          string              `json:"path,omitempty"`
	Principal     string              `json:"principal,omitempty"`
	RemoteAddress string              `json:"remoteAddress,omitempty"`
	Headers       map[string]string   `json:"headers,omitempty"`
	Descriptors   []map[string][]pair `json:"descriptors,omitempty"`
	Domain        string              `json:"domain,omitempty"`
}

type pair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// post sends the body to the path.
func (a *attacker) post(ctx context.Context, path, body string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.HTTP+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	return a.do(r)
}

// do sends the request and returns its status.
func (a *attacker) do(r *http.Request) (string, error) {
	response, err := a.http.Do(r)
	if err != nil {
		return "", err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.Status, response.Body.Close()
}

// posts sends the n-th body to the path.
func posts(path string, of func(n int) map[string]any) load {
	return paced(func(ctx context.Context, a *attacker, n int) (string, error) {
		body, err := json.Marshal(of(n))
		if err != nil {
			return "", err
		}
		return a.post(ctx, path, string(body))
	})
}

// checks posts the attributes of the n-th request.
func checks(of func(n int) attributes) load {
	return posts("/v1/check", func(n int) map[string]any { return map[string]any{"attributes": of(n)} })
}

// namedChain names as many policies as a check may name, with as many limits as they may have.
func namedChain(n int) map[string]any {
	var names []string
	for i := range limiter.MaxChain {
		names = append(names, chainPolicy(i))
	}
	return map[string]any{"policies": names, "attributes": small(chainHost)(n)}
}

// reserveRate is the number of reservations of a key, which are made in a second.
const reserveRate = 25

// reservation never has a commit. The first call for a key spends the reservations that the key had in an
// earlier second.
func reservation(n int) map[string]any {
	return map[string]any{"attributes": small(reserveHost)(n / reserveRate % 3), "cost": 1, "ttl": "1s"}
}

// charge has an ID that Weir must remember.
func charge(n int) map[string]any {
	return map[string]any{"attributes": small(reserveHost)(n), "cost": 1, "id": fmt.Sprint("charge-", n)}
}

// ordinary sends small requests of a tenant with an ordinary policy, to all frontends.
var ordinary = paced(func(ctx context.Context, a *attacker, n int) (string, error) {
	c := clients{http: a.http, base: "http://" + a.HTTP, grpc: a.calls[n%len(a.calls)]}
	frontends := []func(context.Context, string, string) error{c.check, c.rateLimit, c.authorize, c.extAuthz}
	return "decided", frontends[n/len(a.calls)%len(frontends)](ctx, ordinaryHost, fmt.Sprint("user-", n%50))
})

func small(host string) func(n int) attributes {
	return func(n int) attributes {
		return attributes{Host: host, Path: "/", RemoteAddress: "192.0.2.7", Headers: map[string]string{"x-user": fmt.Sprint("user-", n%50)}}
	}
}

// longTexts are values of which expressions, patterns and parsers take the longest.
var longTexts = []string{"a", "/", "ab", "1", "crawle", "fo ", "A", "k"}

// expensive is a request of almost 64 KB for one of the hostile expressions, in turn.
func expensive(n int) attributes {
	long := strings.Repeat(longTexts[n/len(expressiontest.Hostile)%len(longTexts)], 8100)[:8100]
	at := attributes{
		Host: expressionHost, Method: strings.Repeat("a/", 511), Path: expressionPath(n%len(expressiontest.Hostile)) + long,
		Principal: long, RemoteAddress: "192.0.2.7",
		Headers: map[string]string{"time": "2020-01-01T00:00:00." + strings.Repeat("7", 43) + "Z", "duration": strings.Repeat("1h1.5s", 10)},
	}
	for i := range 120 {
		at.Headers[fmt.Sprint("x-", i)] = long[:320]
	}
	return at
}

// maxText is the longest value of a check.
const maxText = 8192

// segments is a request whose path has thousands of segments that normalization resolves.
func segments(n int) attributes {
	at := small(chainHost)(n)
	at.Path = strings.Repeat([]string{"/a/..", "/.", "//", "/%2e%2E/a", "/a"}[n%5], maxText)[:maxText]
	return at
}

// selected is a request for policies with 16,384 keys in overrides.
func selected(n int) attributes {
	at := small(overrideHost)(n)
	at.Headers["x-user"], at.RemoteAddress = overriddenKey(n%65, n%256), fmt.Sprintf("10.%d.%d.1", n%65, n%101)
	return at
}

// manyParts is a request whose key has parts that are long, or missing.
func manyParts(n int) attributes {
	at := small(longKeyHost)(n)
	for policy := range 4 {
		for part := range 8 {
			at.Headers[fmt.Sprintf("x-%d-%d", policy, part)] = strings.Repeat("k", 1500) + strconv.Itoa(n)
		}
	}
	switch n % 3 {
	case 1:
		at.Headers["x-0-7"] = strings.Repeat("k", maxText)
	case 2:
		delete(at.Headers, "x-1-7")
	}
	return at
}

// newKeys is a request with a new key.
func newKeys(n int) attributes {
	at := small(newKeyHost)(n)
	at.Headers["x-user"] = fmt.Sprintf("invented-%d", n)
	return at
}

// largestBodies sends bodies of up to and over 64 KiB: of many descriptors, of deep JSON, and invalid ones.
var largestBodies = paced(func(ctx context.Context, a *attacker, n int) (string, error) {
	entry := `{"key":"` + strings.Repeat("k", 110) + `","value":"` + strings.Repeat("v", 110) + `"}`
	descriptor := `{"entries":[` + strings.Repeat(entry+`,`, 15) + entry + `]}`
	body := []string{
		`{"attributes":{"host":"` + chainHost + `","domain":"` + chainHost + `","descriptors":[` + strings.Repeat(descriptor+`,`, 15) + descriptor + `]}}`,
		`{"attributes":` + strings.Repeat(`{"a":[`, 10_000),
		`{"policies":["` + strings.Repeat(`\ud83d\ude00`, 5_400) + `"]}`,
		strings.Repeat("[", 65_536),
		`{"attributes":{"host":"` + strings.Repeat("a.", 40_000) + `"}}`,
	}[n%5]
	return a.post(ctx, "/v1/check", body)
})

// forwarded sends 60 KB of headers as nginx forwards them: long, repeated with other values, and many.
var forwarded = paced(func(ctx context.Context, a *attacker, n int) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.HTTP+"/v1/authorize?deny=403", http.NoBody)
	if err != nil {
		return "", err
	}
	at := expensive(n)
	r.Header = http.Header{
		"X-Original-Uri": {at.Path}, "X-Original-Method": {"GET"}, "X-Forwarded-Host": {at.Host}, "X-Forwarded-For": {at.RemoteAddress},
		userHeader: {"a", "b"},
	}
	for name, value := range at.Headers {
		r.Header[http.CanonicalHeaderKey(name)] = []string{value, "other"}
	}
	if n%2 == 0 { // ambiguous parts of keys
		r.Header.Set("X-Forwarded-Host", longKeyHost)
		for part := range 8 {
			r.Header[fmt.Sprint("X-0-", part)] = []string{"a", "b"}
		}
	}
	return a.do(r)
})

// descriptorsOf are as many descriptors as a request may have, with a value of that length in each.
func descriptorsOf(n, length int) (all []*commonv3.RateLimitDescriptor) {
	long := strings.Repeat("a", length)
	for i := range descriptorCount {
		all = append(all, &commonv3.RateLimitDescriptor{Entries: []*commonv3.RateLimitDescriptor_Entry{
			{Key: "user", Value: fmt.Sprintf("user-%d-%d", n, i)}, {Key: "header", Value: long},
		}})
	}
	return all
}

// rateLimits sends requests of Envoy with 64 descriptors, each with a value of that length.
func rateLimits(domain string, length int) load {
	return paced(func(ctx context.Context, a *attacker, n int) (string, error) {
		response, err := ratelimitv3.NewRateLimitServiceClient(a.calls[n%len(a.calls)]).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{
			Domain: domain, Descriptors: descriptorsOf(n, length),
		})
		return response.GetOverallCode().String(), err
	})
}

// authorizations sends 60 KB of headers as Envoy does, for expensive expressions.
var authorizations = paced(func(ctx context.Context, a *attacker, n int) (string, error) {
	at := expensive(n)
	at.Headers["x-user"] = strings.Repeat("u", 9000)
	response, err := authv3.NewAuthorizationClient(a.calls[n%len(a.calls)]).Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "GET", Host: at.Host, Path: at.Path, Headers: at.Headers,
		}},
	}})
	return fmt.Sprint("status ", response.GetStatus().GetCode()), err
})
