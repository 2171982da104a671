// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

func TestNormalizePath(t *testing.T) {
	for path, want := range map[string]string{
		"/login":            "/login",
		"/login?next=/":     "/login",
		"/login#top":        "/login",
		"":                  "/",
		"/":                 "/",
		"login":             "/login",
		"//login":           "/login",
		"/a//b///c":         "/a/b/c",
		"/a/./b":            "/a/b",
		"/a/../b":           "/b",
		"/../../b":          "/b",
		"/a/b/..":           "/a/",
		"/a/.":              "/a/",
		"/..":               "/",
		"/a/":               "/a/",
		"/%6cogin":          "/login",
		"/%6Cogin%7e":       "/login~",
		"/%2e%2e/login":     "/login",
		"/x/%2E%2e/login":   "/login",
		"/a%2fb":            "/a%2Fb",
		"/a%2Fb":            "/a%2Fb",
		"/%":                "/%25",
		"/%4":               "/%254",
		"/%zz":              "/%25zz",
		"/.well-known/acme": "/.well-known/acme",
		"/...":              "/...",
		"/a%00b":            "/a%00b",
		"/a\x00b c":         "/a%00b%20c",
		"/café":             "/caf%C3%A9",
		"/caf%c3%a9":        "/caf%C3%A9",
		"/\xff":             "/%FF",
		"/a%21%40;v=1":      "/a!@;v=1",
		"/%252e%252e/x":     "/%252e%252e/x",
		"/%%32e":            "/%252e",
		"/a%5Cb\\c":         "/a%5Cb%5Cc",
	} {
		t.Run(path, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(plan.NormalizePath(path)).To(Equal(want))
			g.Expect(plan.NormalizePath(want)).To(Equal(want), "normalization is idempotent")
		})
	}
}

func FuzzNormalizeHost(f *testing.F) {
	f.Add("[2001:DB8::1%25eth0]:80")
	f.Add("Shop.example..:80:81")
	f.Fuzz(func(t *testing.T, host string) {
		once := plan.NormalizeHost(host)
		if twice := plan.NormalizeHost(once); twice != once {
			t.Errorf("%q -> %q -> %q", host, once, twice)
		}
	})
}

func FuzzNormalizePath(f *testing.F) {
	f.Add("/a/../%2e%2e//b?x")
	f.Add("%%32e/..")
	f.Fuzz(func(t *testing.T, path string) {
		once := plan.NormalizePath(path)
		if once == "" || once[0] != '/' {
			t.Errorf("%q -> %q does not start with a slash", path, once)
		}
		if twice := plan.NormalizePath(once); twice != once {
			t.Errorf("%q -> %q -> %q", path, once, twice)
		}
	})
}

func TestNormalizeHost(t *testing.T) {
	for host, want := range map[string]string{
		"shop.example":           "shop.example",
		"Shop.EXAMPLE":           "shop.example",
		"shop.example:8443":      "shop.example",
		"shop.example.":          "shop.example",
		"shop.example.:80":       "shop.example",
		"192.0.2.1:80":           "192.0.2.1",
		"[2001:DB8::1]":          "2001:db8::1",
		"[2001:db8::1]:80":       "2001:db8::1",
		"2001:db8::1":            "2001:db8::1",
		"[2001:db8:0::1%25eth0]": "2001:db8::1",
		"[::ffff:192.0.2.1]:80":  "192.0.2.1",
		"192.0.2.1":              "192.0.2.1",
		"[shop.example]:80":      "[shop.example]",
		"shop.example:80:81":     "shop.example",
		"shop.example..":         "shop.example",
		".":                      "",
		":80":                    "",
		"":                       "",
	} {
		t.Run(host, func(t *testing.T) {
			NewWithT(t).Expect(plan.NormalizeHost(host)).To(Equal(want))
		})
	}
}

func TestNormalizeAddress(t *testing.T) {
	a := plan.Attributes{RemoteAddress: netip.MustParseAddr("::ffff:192.0.2.1")}
	a.Normalize()
	NewWithT(t).Expect(a.RemoteAddress).To(Equal(netip.MustParseAddr("192.0.2.1")))
}
