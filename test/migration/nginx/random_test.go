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
			rule := pick(r, "m.example", "m.example", "*.m.example", "b.m.example", "-", "o.example")
			for range r.IntN(4) {
				rule += " " + pick(r, "", "=", "~") + pick(r, "/", "/a", "/A", "/a/b", "/a/b/c", "/ab", "/b", "/a.b", "/c")
			}
			if strings.Contains(d.annotations, "=true") || strings.Contains(d.annotations, "rewrite") {
				rule += " ~" + pick(r, "/a(/|$)(.*)", "/a/.*", "/(a|b)/c", "/b/?$", "/a[bc]?", "/a|/c", "/.*[.]css")
			}
			rules = append(rules, rule)
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
	}
	for range n {
		q := request{host: pick(r, hosts...), path: pick(r, paths...)}
		q.address = pick(r, "192.0.2.1", "198.51.100.9", "203.0.113.9", "192.168.11.77", "8.8.8.8", "2001:db8::5", "2001:db9::5")
		switch r.IntN(12) {
		case 0:
			q.host = strings.ToUpper(q.host)
		case 1:
			q.host += ":8080"
		case 2:
			q.host += "."
		case 3:
			q.host = "x." + q.host
		}
		switch r.IntN(14) {
		case 0, 1:
			q.path = strings.ToUpper(q.path)
		case 2:
			q.path += "/"
		case 3, 4:
			q.path = strings.TrimSuffix(q.path, "/") + "/x"
		case 5:
			q.path += "x"
		case 6:
			q.path = "/" + q.path
		case 7:
			q.path = "/." + q.path
		case 8:
			q.path = strings.TrimSuffix(q.path, "/") + "/y/../x"
		case 9:
			q.path = "/x" + q.path
		case 10:
			q.path = strings.TrimRight(q.path, "/*") + "/"
		}
		all = append(all, q)
	}
	return all
}
