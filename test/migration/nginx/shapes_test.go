// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// described is an Ingress in short: its day of creation (0 for none), annotations as "limit-rps=10 canary=true", and rules as
// "host /prefix =/exact ~/specific; host /other". A host of "" is "-". Rules of "default" are a default backend only.
type described struct {
	name        string
	day         int
	annotations string
	rules       string
}

func (d described) ingress() *networkingv1.Ingress {
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: d.name, Port: networkingv1.ServiceBackendPort{Number: 80}}}
	i := &networkingv1.Ingress{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: d.name, Annotations: map[string]string{}},
	}
	if d.day > 0 {
		i.CreationTimestamp = metav1.NewTime(time.Date(2024, 5, d.day, 0, 0, 0, 0, time.UTC))
	}
	for annotation := range strings.FieldsSeq(d.annotations) {
		name, value, _ := strings.Cut(annotation, "=")
		i.Annotations[prefix+name] = value
	}
	if d.rules == "default" {
		i.Spec.DefaultBackend = &backend
		return i
	}
	for text := range strings.SplitSeq(d.rules, ";") {
		words := strings.Fields(text)
		rule := networkingv1.IngressRule{Host: strings.TrimPrefix(words[0], "-")}
		if len(words) > 1 {
			rule.HTTP = &networkingv1.HTTPIngressRuleValue{}
		}
		for _, path := range words[1:] {
			kind := networkingv1.PathTypePrefix
			switch path[0] {
			case '=':
				kind = networkingv1.PathTypeExact
			case '~':
				kind = networkingv1.PathTypeImplementationSpecific
			}
			rule.HTTP.Paths = append(rule.HTTP.Paths, networkingv1.HTTPIngressPath{Path: strings.TrimLeft(path, "=~"), PathType: &kind, Backend: backend})
		}
		i.Spec.Rules = append(i.Spec.Rules, rule)
	}
	return i
}

// shape is a kind of configuration.
type shape struct {
	ingresses []described
	hosts     string // of requests, besides the ones of the Ingresses
	paths     string // of requests, besides the ones of the Ingresses
}

var shapes = map[string]shape{
	"a rewritten path makes regular expressions of all": {ingresses: []described{
		{"web", 1, "limit-rps=10", "sign.example /"},
		{"backend", 2, "rewrite-target=/$2", "sign.example ~/api(/|$)(.*)"},
	}, paths: "/api /api/x /API/x /apix /x/api"},
	"use-regex, with unescaped dots and alternatives": {ingresses: []described{
		{"web", 1, "limit-rps=10", "r.example /v1.0 =/a.b /static"},
		{"api", 2, "use-regex=true limit-rpm=7", "r.example ~/v[12]/.* ~/a|/b ~/static/[a-z]+[.]css"},
	}, paths: "/v1/ /v2/x /v1.0/x /v1x0 /axb /a.b /x/b /static/main.css /static/1.css /STATIC/x"},
	"regular expressions ignore case": {ingresses: []described{
		{"login", 1, "limit-rpm=10", "shop.example /login"},
		{"assets", 2, "rewrite-target=/$1", "shop.example ~/assets/(.*)"},
	}, paths: "/LOGIN /loginx /Login/x /assets /ASSETS/x /other"},
	"prefixes respect case": {ingresses: []described{
		{"login", 1, "limit-rpm=10", "shop.example /login =/Admin"},
		{"web", 2, "", "shop.example / /Login/x"},
	}, paths: "/LOGIN /loginx /Login/x /admin /Admin /Admin/x"},
	"an exact path beside a regular expression": {ingresses: []described{
		{"a", 1, "limit-rps=5 use-regex=true", "r.example ~/api/.*"},
		{"b", 2, "", "r.example =/api/health ~/api/health/deep /api"},
	}, paths: "/api/x /api/healthz /API/HEALTH /api/healt"},
	"an exact path and a prefix of the same text": {ingresses: []described{
		{"exact", 2, "limit-rps=5", "e.example =/a =/b/c"},
		{"prefix", 1, "limit-rps=9", "e.example /a /b"},
		{"rest", 3, "", "e.example / /b/c"},
	}, paths: "/a/x /ax /b/c/d"},
	"prefixes of several Ingresses in one another": {ingresses: []described{
		{"one", 1, "limit-rps=5", "n.example / /a/b/c =/a/b/c/d/e"},
		{"two", 2, "limit-rps=6", "n.example /a /a/b/c/d /z"},
		{"three", 3, "", "n.example ~/a/b ~/ab"},
	}, paths: "/a/b/c/d/e/f /abc /a/bc"},
	"a target equal to the path": {ingresses: []described{
		{"one", 1, "limit-rps=5 rewrite-target=/", "t.example / /deep; u.example /"},
		{"two", 2, "", "t.example /Deep/x; u.example /Deep"},
		{"three", 3, "rewrite-target=/same limit-rpm=3", "v.example /same; w.example =/same"},
		{"four", 4, "", "v.example /SAME/x; w.example /SAME"},
	}, paths: "/deep/x /DEEP /same/x"},
	"canaries": {ingresses: []described{
		{"shop", 2, "limit-rps=100", "shop.example / /old"},
		{"canary", 1, "limit-rps=1 canary=true canary-weight=10 use-regex=true", "shop.example / /new"},
		{"lonely", 3, "limit-rps=2 canary=1", "lonely.example /"},
		{"free", 3, "", "shop.example /free; free.example /"},
		{"rest", 4, "limit-rps=3", "default"},
	}, hosts: "lonely.example", paths: "/new/x /OLD"},
	"two Ingresses with one path": {ingresses: []described{
		{"new", 9, "limit-rps=1", "shop.example / /a =/b; other.example"},
		{"old", 1, "limit-rps=50", "shop.example / =/a; other.example /c"},
		{"same-day", 9, "limit-rps=7", "shop.example /b =/a /only; other.example /"},
		{"free", 9, "", "free.example /"},
	}},
	"a host that begins without paths": {ingresses: []described{
		{"bare", 1, "limit-rps=4 use-regex=true", "bare.example"},
		{"paths", 2, "limit-rps=6", "bare.example /A /b"},
		{"root", 3, "", "rooted.example /x; rooted.example /"},
		{"first", 1, "limit-rps=4", "rooted.example"},
	}, paths: "/a/x"},
	"allowlists": {ingresses: []described{
		{"both", 1, "limit-rps=10 limit-allowlist=198.51.100.0/24 limit-whitelist=203.0.113.0/24", "b.example /"},
		{"alias", 2, "limit-rps=10 limit-whitelist=203.0.113.0/24,192.168.11.20/24,8.8.8.8", "w.example /"},
		{"six", 3, "limit-rpm=10 limit-allowlist=2001:db8::/32,::ffff:192.0.2.1", "s.example /"},
	}},
	"aliases": {ingresses: []described{
		{"one", 1, "server-alias=www.one.example,two.example,*.tree.example,.both.example", "one.example /; a.one.example /x"},
		{"late", 2, "limit-rps=5 server-alias=late.example", "one.example /y"},
		{"two", 3, "limit-rps=6 server-alias=www.one.example,two-alias.example", "two.example /"},
		{"wide", 4, "limit-rps=7 server-alias=*.deep.tree.example", "*.tree.example /; *.one.example /; x.tree.example /"},
		{"rest", 5, "limit-rps=8", "- /z"},
	}, hosts: "late.example two-alias.example www.one.example q.tree.example x.tree.example p.deep.tree.example both.example a.both.example r.one.example"},
	"aliases of an Ingress with several hosts": {ingresses: []described{
		{"multi", 1, "limit-rps=5 server-alias=www.shop.example", "shop.example /cart; *.shop.example /"},
		{"static", 2, "", "shop.example /cart/images /; cdn.shop.example /"},
	}, hosts: "www.shop.example"},
	"wildcard hosts": {ingresses: []described{
		{"wild", 1, "limit-rpm=60", "*.w.example /shop/ /shop/public"},
		{"exact", 2, "", "api.w.example /; deep.api.w.example /"},
		{"mine", 3, "limit-rps=9", "*.api.w.example /; shop.w.example /x"},
		{"rest", 4, "limit-rps=2", "- /"},
	}, hosts: "q.w.example q.api.w.example a.b.w.example w.example shop.w.example"},
	"a default backend": {ingresses: []described{
		{"host-less", 1, "limit-rps=3 rewrite-target=/$1", "- / ~/h(.*)"},
		{"default", 2, "limit-rps=7 use-regex=true", "default"},
		{"other", 3, "", "d.example /only"},
	}, paths: "/H /hx"},
	"types of paths": {ingresses: []described{
		{"types", 1, "limit-rps=7", "t.example ~/spec /pre/ =/ex/ =/ex2 ~/x(y)|z /star* =/star*"},
		{"rest", 2, "", "t.example / =/spec/e"},
	}, paths: "/specx /spec/e /pre /ex /x(y)|z /x(y)|z/q /xy /star/q /star*/q /star*q"},
	"both rates, an unlimited Ingress and odd numbers": {ingresses: []described{
		{"both", 1, "limit-rps=2 limit-rpm=5 limit-burst-multiplier=3", "n.example /a"},
		{"zero", 2, "limit-rps=0", "n.example /b"},
		{"negative", 3, "limit-rps=-5 limit-rpm=0", "n.example /c"},
		{"one", 4, "limit-rps=1 limit-burst-multiplier=x", "n.example /d"},
	}},
}
