// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	"github.com/onsi/gomega"

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
			g := gomega.NewWithT(t)
			g.Expect(plan.NormalizePath(path)).To(gomega.Equal(want))
			g.Expect(plan.NormalizePath(want)).To(gomega.Equal(want), "normalising again changes nothing")
		})
	}
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
		"shop.example":      "shop.example",
		"Shop.EXAMPLE":      "shop.example",
		"shop.example:8443": "shop.example",
		"shop.example.":     "shop.example",
		"shop.example.:80":  "shop.example",
		"192.0.2.1:80":      "192.0.2.1",
		"[2001:DB8::1]":     "2001:db8::1",
		"[2001:db8::1]:80":  "2001:db8::1",
		"2001:db8::1":       "2001:db8::1",
		"":                  "",
	} {
		t.Run(host, func(t *testing.T) {
			gomega.NewWithT(t).Expect(plan.NormalizeHost(host)).To(gomega.Equal(want))
		})
	}
}

func TestMatch(t *testing.T) {
	for name, tc := range map[string]struct {
		match plan.Match
		a     plan.Attributes
		want  bool
	}{
		"an exact host":             {plan.Match{Hosts: []string{"a.example"}}, plan.Attributes{Host: "a.example"}, true},
		"another host":              {plan.Match{Hosts: []string{"a.example"}}, plan.Attributes{Host: "b.example"}, false},
		"no host":                   {plan.Match{Hosts: []string{"a.example"}}, plan.Attributes{}, false},
		"one of several hosts":      {plan.Match{Hosts: []string{"a.example", "b.example"}}, plan.Attributes{Host: "b.example"}, true},
		"below a wildcard":          {plan.Match{Hosts: []string{"*.example"}}, plan.Attributes{Host: "a.example"}, true},
		"far below a wildcard":      {plan.Match{Hosts: []string{"*.example"}}, plan.Attributes{Host: "a.b.c.example"}, true},
		"not the wildcard's parent": {plan.Match{Hosts: []string{"*.a.example"}}, plan.Attributes{Host: "a.example"}, false},
		"not what only ends alike":  {plan.Match{Hosts: []string{"*.a.example"}}, plan.Attributes{Host: "xa.example"}, false},
		"a method":                  {plan.Match{Methods: []string{"GET", "POST"}}, plan.Attributes{Method: "POST"}, true},
		"another method":            {plan.Match{Methods: []string{"GET"}}, plan.Attributes{Method: "POST"}, false},
		"an exact path":             {plan.Match{Paths: []string{"/login"}}, plan.Attributes{Path: "/login"}, true},
		"not below an exact path":   {plan.Match{Paths: []string{"/login"}}, plan.Attributes{Path: "/login/"}, false},
		"below a prefix":            {plan.Match{Paths: []string{"/api/*"}}, plan.Attributes{Path: "/api/v1"}, true},
		"beside a prefix":           {plan.Match{Paths: []string{"/api/*"}}, plan.Attributes{Path: "/api"}, false},
		"within a segment":          {plan.Match{Paths: []string{"/api*"}}, plan.Attributes{Path: "/apis"}, true},
		"every path":                {plan.Match{Paths: []string{"/*"}}, plan.Attributes{Path: "/x"}, true},
		"all fields":                {plan.Match{Hosts: []string{"a.example"}, Methods: []string{"GET"}, Paths: []string{"/x"}}, plan.Attributes{Host: "a.example", Method: "GET", Path: "/x"}, true},
		"all fields but one":        {plan.Match{Hosts: []string{"a.example"}, Methods: []string{"GET"}, Paths: []string{"/x"}}, plan.Attributes{Host: "a.example", Method: "PUT", Path: "/x"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := valid()
			p.Matches = []plan.Match{tc.match}
			found := plan.NewSnapshot(1, []*plan.Plan{p}).Match(&tc.a)
			want := 0
			if tc.want {
				want = 1
			}
			gomega.NewWithT(t).Expect(found).To(gomega.HaveLen(want))
		})
	}
}

func TestSnapshot(t *testing.T) {
	g := gomega.NewWithT(t)
	policy := func(name string, mode plan.Mode, matches ...plan.Match) *plan.Plan {
		p := valid()
		p.Name, p.Mode, p.Matches = name, mode, matches
		return p
	}
	everything := plan.Match{Paths: []string{"/*"}}
	s := plan.NewSnapshot(7, []*plan.Plan{
		policy("c", plan.ModeEnforce, everything, everything, plan.Match{Methods: []string{"GET"}}),
		policy("a", plan.ModeShadow, everything),
		policy("b", plan.ModeDisabled, everything),
		policy("d", plan.ModeEnforce),
	})
	g.Expect(s.Revision()).To(gomega.Equal(int64(7)))
	g.Expect(ids(s.Plans())).To(gomega.Equal([]string{"shop/a", "shop/b", "shop/c", "shop/d"}))
	g.Expect(s.Lookup("shop/b").Mode).To(gomega.Equal(plan.ModeDisabled))
	g.Expect(s.Lookup("shop/x")).To(gomega.BeNil())
	found := s.Match(&plan.Attributes{Method: "GET", Path: "/x"})
	g.Expect(ids(found)).To(gomega.Equal([]string{"shop/a", "shop/c"}), "each once, in order, without the disabled")
}

func TestNormalizeAddress(t *testing.T) {
	a := plan.Attributes{RemoteAddress: netip.MustParseAddr("::ffff:192.0.2.1")}
	a.Normalize()
	gomega.NewWithT(t).Expect(a.RemoteAddress).To(gomega.Equal(netip.MustParseAddr("192.0.2.1")))
}

func ids(plans []*plan.Plan) []string {
	var ids []string
	for _, p := range plans {
		ids = append(ids, p.ID())
	}
	return ids
}

// Finding the plans of a request costs the same however many there are for
// other hosts or other paths.
func BenchmarkMatch(b *testing.B) {
	for name, match := range map[string]func(i int) plan.Match{
		"hosts": func(i int) plan.Match {
			return plan.Match{Hosts: []string{fmt.Sprintf("h%d.example", i), fmt.Sprintf("*.w%d.example", i)}}
		},
		"paths": func(i int) plan.Match {
			return plan.Match{Hosts: []string{"*.w7.example"}, Paths: []string{fmt.Sprintf("/%d", i), fmt.Sprintf("/%d/*", i)}}
		},
		"paths of any host": func(i int) plan.Match { return plan.Match{Paths: []string{fmt.Sprintf("/%d/*", i)}} },
	} {
		for _, n := range []int{10, 10_000} {
			b.Run(name+"/"+strconv.Itoa(n), func(b *testing.B) {
				plans := make([]*plan.Plan, n)
				for i := range plans {
					plans[i] = valid()
					plans[i].Name = fmt.Sprintf("p%d", i)
					plans[i].Matches = []plan.Match{match(i)}
				}
				s := plan.NewSnapshot(1, plans)
				a := &plan.Attributes{Host: "x.y.w7.example", Path: "/7/x"}
				b.ReportAllocs()
				for b.Loop() {
					if len(s.Match(a)) != 1 {
						b.Fatal("want one plan")
					}
				}
			})
		}
	}
}
