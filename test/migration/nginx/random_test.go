// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"math/rand/v2"
	"regexp"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// unescaped are characters that a request has escaped: nginx compares them decoded, Weir as they are, which docs/migration.md
// documents.
var unescaped = regexp.MustCompile(`[][?^|{}]`)

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// randomIngresses returns two to six Ingresses that share hosts and paths.
func randomIngresses(r *rand.Rand, hasTimes bool) (all []*networkingv1.Ingress) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names[:2+r.IntN(5)] {
		d := described{name: name}
		if hasTimes {
			d.day = 1 + r.IntN(4)
		}
		d.annotations = pick(r, "", "", "limit-rps=3", "limit-rpm=5", "limit-rps=2 limit-rpm=9", "limit-rps=4 limit-allowlist=198.51.100.0/24") +
			pick(r, "", "", "", "", " use-regex=true", " rewrite-target=/$1", " rewrite-target=/a", " canary=true", " server-alias=al.example", " server-alias=*.m.example,b.m.example")
		var rules []string
		for range 1 + r.IntN(3) {
			rule := []string{pick(r, "m.example", "m.example", "*.m.example", "b.m.example", "-", "o.example")}
			for range r.IntN(4) {
				rule = append(rule, pick(r, "", "=", "~")+pick(r, "/", "/a", "/A", "/a/b", "/a/b/c", "/ab", "/b", "/a.b", "/c"))
			}
			if strings.Contains(d.annotations, "=true") || strings.Contains(d.annotations, "rewrite") {
				rule = append(rule, "~"+pick(r, "/a(/|$)(.*)", "/a/.*", "/(a|b)/c", "/b/?$", "/a[bc]?", "/a|/c", "/.*[.]css"))
			}
			rules = append(rules, strings.Join(rule, " "))
		}
		d.rules = strings.Join(rules, ";")
		if r.IntN(8) == 0 {
			d.rules = "default"
		}
		all = append(all, d.ingress())
	}
	return all
}

// requestsOf returns requests at random for the hosts and paths of the Ingresses, and more of both.
func requestsOf(r *rand.Rand, ingresses []*networkingv1.Ingress, n int, hosts, paths []string) (all []request) {
	hosts, paths = append(hosts, "none.example"), append(paths, "/", "/none")
	for _, i := range ingresses {
		moreHosts, morePaths := spokenOf(i)
		hosts, paths = append(hosts, moreHosts...), append(paths, morePaths...)
	}
	addresses := []string{"192.0.2.1", "198.51.100.9", "203.0.113.9", "192.168.11.77", "8.8.8.8", "2001:db8::5", "2001:db9::5"}
	for range n {
		all = append(all, request{pick(r, hostSpellings...)(pick(r, hosts...)), pick(r, pathSpellings...)(pick(r, paths...)), pick(r, addresses...)})
	}
	return all
}

// spokenOf returns hosts and paths of the Ingress.
func spokenOf(i *networkingv1.Ingress) (hosts, paths []string) {
	for _, rule := range i.Spec.Rules {
		if rule.Host != "" {
			hosts = append(hosts, strings.Replace(rule.Host, "*", "sub", 1), strings.Replace(rule.Host, "*", "low.sub", 1))
		}
		for _, p := range pathsOf(&rule) {
			paths = append(paths, unescaped.ReplaceAllString(p.Path, ""))
		}
	}
	for alias := range strings.SplitSeq(i.Annotations[prefix+"server-alias"], ",") {
		if alias != "" {
			hosts = append(hosts, strings.TrimPrefix(strings.Replace(alias, "*", "sub", 1), "."))
		}
	}
	return hosts, paths
}

func same(text string) string { return text }

var hostSpellings = []func(string) string{
	same, same, same, same, same, same, same, same,
	strings.ToUpper,
	func(h string) string { return h + ":8080" },
	func(h string) string { return h + "." },
	func(h string) string { return "x." + h },
}

var pathSpellings = []func(string) string{
	same, same, same,
	strings.ToUpper, strings.ToUpper,
	func(p string) string { return p + "/" },
	func(p string) string { return strings.TrimSuffix(p, "/") + "/x" },
	func(p string) string { return strings.TrimSuffix(p, "/") + "/X" },
	func(p string) string { return p + "x" },
	func(p string) string { return "/" + p },
	func(p string) string { return "/." + p },
	func(p string) string { return strings.TrimSuffix(p, "/") + "/y/../x" },
	func(p string) string { return "/x" + p },
	func(p string) string { return strings.TrimRight(p, "/*") + "/" },
}
