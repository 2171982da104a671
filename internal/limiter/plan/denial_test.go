// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testplan"
)

func TestBodiesOfDenials(t *testing.T) {
	for name, tc := range map[string]struct {
		body plan.DenialBody
		want string
	}{
		"text": {
			plan.DenialBody{ContentType: "text/plain", Template: "{{policy}}: {{limit}} is full. Wait {{retryAfter}} s. {{retryAfter}}!"},
			`a<b/"c: l&m is full. Wait 90 s. 90!`,
		},
		"HTML": {
			plan.DenialBody{ContentType: "text/html", Template: "<p>{{policy}} {{limit}}</p>"},
			"<p>a&lt;b/&#34;c l&amp;m</p>",
		},
		"JSON": {
			plan.DenialBody{ContentType: "application/json", Template: `{"wait": {{retryAfter}}, "by": "{{policy}}"}`},
			`{"wait": 90, "by": "a\u003cb/\"c"}`,
		},
		"no placeholder": {plan.DenialBody{ContentType: "text/plain", Template: "a } } b"}, "a } } b"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(tc.body.Problem()).To(BeEmpty())
			g.Expect(string(tc.body.Append(nil, 90, `a<b/"c`, "l&m"))).To(Equal(tc.want))
		})
	}
}

func TestProblemsOfBodies(t *testing.T) {
	for template, want := range map[string]string{
		"{{retryafter}}":                          "has an unknown placeholder {{retryafter}}: write one of {{retryAfter}}, {{policy}}, {{limit}}",
		"a {{ b":                                  "has an unknown placeholder {{ b}}",
		strings.Repeat("{{limit}}", 17):           "has 17 placeholders, at most 16 are allowed",
		strings.Repeat("a", 20_000):               "must be at most 16384 bytes",
		`{"a": {{policy}}}`:                       "is not valid JSON",
		`{"a": "\{{policy}}"}`:                    "is not valid JSON",
		`{"a": {{retryAfter}}1}`:                  "is not valid JSON",
		`{"a": 1`:                                 "is not valid JSON",
		`{"a": "{{limit}}", "b": {{retryAfter}}}`: "",
	} {
		body := plan.DenialBody{ContentType: "application/json", Template: template}
		if want == "" {
			NewWithT(t).Expect(body.Problem()).To(BeEmpty(), template)
		} else {
			NewWithT(t).Expect(body.Problem()).To(HavePrefix(want), template)
		}
	}
}

func TestProblemsOfHeaders(t *testing.T) {
	for name, valid := range map[string]bool{
		"Cache-Control": true, "X-Reason": true, "Content-Language": true, "Set-Cookie": false, "LOCATION": false, "Connection": false,
		"Transfer-Encoding": false, "Content-Type": false, "Retry-After": false, "RateLimit": false, "RateLimit-Policy": false,
		"X-RateLimit-Limit": false, "Weir-Degraded": false, ":status": false, "": false, "a b": false, "x-envoy-ratelimited": false,
	} {
		header := plan.DenialHeader{Name: name, Value: "a"}
		if valid {
			NewWithT(t).Expect(header.Problem()).To(BeEmpty(), name)
		} else {
			NewWithT(t).Expect(header.Problem()).To(HavePrefix("name must"), name)
		}
	}
	for _, value := range []string{"a\r\nb", "\x00", "\u00e9"} {
		header := plan.DenialHeader{Name: "X-A", Value: value}
		NewWithT(t).Expect(header.Problem()).To(Equal("value must be printable ASCII"))
	}
}

// A decision half rejects what no controller writes.
func TestValidateDenials(t *testing.T) {
	for want, denial := range map[string]plan.Denial{
		"denial.status 404":                   {Status: 404},
		"9 headers":                           {Headers: make([]plan.DenialHeader, 9)},
		"denial.headers[0]: name must not be": {Headers: []plan.DenialHeader{{Name: "Location", Value: "/"}}},
		`denial.body.contentType "image/png"`: {Body: plan.DenialBody{ContentType: "image/png", Template: "a"}},
		"denial.body.template has an unknown": {Body: plan.DenialBody{ContentType: "text/plain", Template: "{{a}}"}},
	} {
		p := testplan.Valid()
		p.Denial = denial
		NewWithT(t).Expect(p.Validate()).To(MatchError(ContainSubstring(want)))
	}
}

// A template that is accepted for JSON is JSON with any names in it.
func FuzzDenialBody(f *testing.F) {
	f.Add(`{"a": "{{policy}}", "b": {{retryAfter}}, "c": "\\{{limit}}"}`, "a/b", "\x00\"\\", uint32(7))
	f.Add(`"\u00{{retryAfter}}{{retryAfter}}"`, "u0041", "", uint32(0))
	f.Fuzz(func(t *testing.T, template, policy, limit string, retryAfter uint32) {
		body := plan.DenialBody{ContentType: "application/json", Template: template}
		if body.Problem() != "" {
			return
		}
		if text := body.Append(nil, int64(retryAfter), policy, limit); !json.Valid(text) {
			t.Errorf("%q with %q, %q, %d is %q", template, policy, limit, retryAfter, text)
		}
	})
}
