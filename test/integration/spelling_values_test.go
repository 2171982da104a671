// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"regexp"
	"strconv"
	"strings"
)

// dialect is how servers read the values of queries, cookies and headers.
type dialect struct {
	separators string                      // of query parameters
	cookies    string                      // separators of cookies
	decode     func(string) string         // of parameters and cookies
	isNamed    func(got, name string) bool // compares names
	change     func(string) string         // of the value; nil is none
	unquote    bool                        // removes quotes and octal escapes of cookies
	last       bool                        // of repeated values, in place of the first
}

// standard is the dialect of the URL standard and RFC 6265.
func standard(edits ...func(*dialect)) *dialect {
	d := &dialect{separators: "&", cookies: ";", decode: decodeForm, isNamed: func(got, name string) bool { return got == name }}
	for _, edit := range edits {
		edit(d)
	}
	return d
}

func decodeForm(text string) string { return decode(strings.ReplaceAll(text, "+", " ")) }

// The resources whose key or match is a value, by their path. The account is the value.
var (
	profile = resource{method: "GET", host: "bank.example", path: "/profile", account: "alice"}
	plus    = resource{method: "GET", host: "bank.example", path: "/plus", account: "al+ice"}
	session = resource{method: "GET", host: "bank.example", path: "/session", account: "alice"}
	tier    = resource{method: "GET", host: "bank.example", path: "/tier", account: "free"}
	level   = resource{method: "GET", host: "bank.example", path: "/level", account: "free"}
)

// valueOf returns the value that the resource at the path depends on.
func (d *dialect) valueOf(r *request, path string) string {
	switch path {
	case profile.path, plus.path:
		return d.parameter(r, "account")
	case session.path:
		return d.cookie(r)
	case tier.path:
		return d.parameter(r, "tier")
	case level.path:
		return strings.Join(r.all("X-Level"), ",")
	default:
		return strings.Join(r.all("X-Api-Key"), ",")
	}
}

func (d *dialect) parameter(r *request, name string) string {
	_, query, _ := strings.Cut(r.target, "?")
	return d.pick(strings.FieldsFunc(query, func(c rune) bool { return strings.ContainsRune(d.separators, c) }), name)
}

// cookie reads all cookie headers: RFC 9113, section 8.2.3, joins them with semicolons. A plus sign is none in a query.
func (d *dialect) cookie(r *request) string {
	pairs := strings.FieldsFunc(strings.Join(r.all("Cookie"), "; "), func(c rune) bool { return strings.ContainsRune(d.cookies, c) })
	for i, pair := range pairs {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if d.unquote {
			value = unquoted(strings.TrimSpace(value))
		}
		pairs[i] = strings.ReplaceAll(strings.TrimSpace(name)+"="+strings.TrimSpace(value), "+", "%2b")
	}
	return d.pick(pairs, "account")
}

func (d *dialect) pick(pairs []string, name string) (value string) {
	for _, pair := range pairs {
		got, text, _ := strings.Cut(pair, "=")
		if !d.isNamed(d.decode(got), name) {
			continue
		}
		if value = d.decode(text); d.change != nil {
			value = d.change(value)
		}
		if !d.last {
			return value
		}
	}
	return value
}

// octal is an escape in a quoted cookie of Python.
var octal = regexp.MustCompile(`\\[0-3][0-7][0-7]`)

func unquoted(text string) string {
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		return text
	}
	return octal.ReplaceAllStringFunc(text[1:len(text)-1], func(escape string) string {
		c, _ := strconv.ParseUint(escape[1:], 8, 8)
		return string(rune(c))
	})
}

// valueReaders read values in another dialect. Each is a way of servers in use.
var valueReaders = []reader{
	inDialect("last of repeated parameters and cookies", func(d *dialect) { d.last = true }),
	inDialect("`;` as separator of parameters", func(d *dialect) { d.separators = "&;" }),
	inDialect("fragment in queries", func(d *dialect) { d.separators = "&#" }),
	inDialect("`+` kept in queries", func(d *dialect) { d.decode = func(s string) string { return s } }),
	inDialect("`+` kept in queries", func(d *dialect) { d.decode = decode }),
	inDialect("escapes of parameters and cookies decoded twice", func(d *dialect) {
		d.decode = func(s string) string { return decodeForm(decodeForm(s)) }
	}),
	inDialect("case of names ignored", func(d *dialect) { d.isNamed = strings.EqualFold }),
	inDialect("brackets after names ignored", func(d *dialect) {
		d.isNamed = func(got, name string) bool { base, _, _ := strings.Cut(got, "["); return base == name }
	}),
	inDialect("spaces around parameters and cookies removed", func(d *dialect) { d.change = strings.TrimSpace }),
	inDialect("quotes and escapes of cookies removed", func(d *dialect) { d.unquote = true }),
	inDialect("`,` as separator of cookies", func(d *dialect) { d.cookies = ";," }),
	inDialect("spaces as separators of cookies", func(d *dialect) { d.cookies = "; \t" }),
}

func inDialect(name string, edit func(*dialect)) reader {
	d := standard(edit)
	return reader{name, func(r *request) resource {
		read := readPlain(r)
		read.account = d.valueOf(r, read.path)
		return read
	}}
}

// valueSpellings are spellings of queries, cookies and headers.
func valueSpellings() (all []spelling) {
	query := func(of resource, texts ...string) {
		for _, text := range texts {
			all = append(all, spelling{of: of, bytes: line("GET", of.path+"?"+text, "HTTP/1.1", "bank.example")})
		}
	}
	for of, value := range map[resource][2]string{profile: {"account", "alice"}, tier: {"tier", "free"}} {
		n, v := value[0], value[1]
		query(of, n+"="+v, "x=1&"+n+"="+v, n+"="+v+"&x", "&&"+n+"="+v, n+"=%"+hex(v[0])+v[1:], "%"+hex(n[0])+n[1:]+"="+v, "%"+hex(n[0])+n[1:]+"=%"+hex(v[0])+v[1:],
			n+"="+v+"&"+n+"=bob", n+"=bob&"+n+"="+v, n+"="+v+"&"+n+"="+v, n+"=bob&%"+hex(n[0])+n[1:]+"="+v, n+"=&"+n+"="+v,
			n+"="+v+";x", n+"="+v+";"+n+"=bob", "x=1;"+n+"="+v, n+"=bob;"+n+"="+v, "x;"+n+"="+v+"&y", "x=1%3b"+n+"="+v, "x=1%26"+n+"="+v, n+"%3d"+v,
			strings.ToUpper(n)+"="+v, strings.ToUpper(n[:1])+n[1:]+"="+v, n+"="+strings.ToUpper(v), n+"=bob&"+strings.ToUpper(n)+"="+v,
			n+"[]="+v, n+"[0]="+v, n+"%5b%5d="+v, n+"[x]="+v, n+"=bob&"+n+"[]="+v, n+"[="+v, "x["+n+"]="+v,
			n+"="+v+"%20", n+"=%20"+v, n+"=+"+v, n+"="+v+"+", n+"="+v+"%09", n+"+="+v, "+"+n+"="+v, n+"="+v+"%00", n+"%00="+v,
			n+"=%25"+hex(v[0])+v[1:], "%25"+hex(n[0])+n[1:]+"="+v, n+"="+v+"%", n+"="+v+"%zz", n+"=%zz"+v, n+"=%"+hex(v[0])+v[1:]+"%zz",
			n+"=\""+v+"\"", n+"='"+v+"'", n+"=="+v, n+"="+v+"=", "?"+n+"="+v, n+"="+v+"?x", n+"="+v+"#x", "#"+n+"="+v, "x#?"+n+"="+v, "x=1#&"+n+"="+v,
			n, n+"=", v, "", n+"=bob", n+"="+v+"&"+strings.Repeat("x&", 200), strings.Repeat("x&", 200)+n+"="+v, n+"="+v+"&x="+strings.Repeat("x", 9000), "x="+strings.Repeat("x", 9000)+"&"+n+"="+v,
			n+"\t="+v, n+"="+v+"\xff", n+"="+v+"%ff", n+"="+v+"%c2%a0", n+"="+v+"/../x", n+"=http://x/"+v)
	}
	query(plus, "account=al%2bice", "account=al%2Bice", "account=al+ice", "account=al%20ice", "account=%61l%2bice")
	add := func(of resource, headers ...string) {
		all = append(all, spelling{of: of, bytes: line("GET", of.path, "HTTP/1.1", "bank.example", headers...)})
	}
	for _, cookie := range []string{
		"account=alice", "account=alice;", "; account=alice", "x=1; account=alice", "x=1;account=alice", "x=1;  account=alice", "account=alice; x", "account = alice", "account= alice", "account =alice", "\taccount=alice",
		`account="alice"`, `account="alice`, `account=alice"`, `account='alice'`, `account="al\151ce"`, `account="\141\154\151\143\145"`, `x="; account=alice; y="`, `x="a, account=alice"`, `account="a,lice"`,
		"account=%61lice", "%61ccount=alice", "account=%2561lice", "account=alice%20", "account=alice+", "account=+alice", "account=alice%00", "account=alice%3bx", "account=alice%zz",
		"account=alice; account=bob", "account=bob; account=alice", "account=alice; account=alice", "account=alice, account=bob", "account=bob,account=alice", "x=1, account=alice", "x=1,account=alice", "account=alice,x=1", "x=1 account=alice", "account=alice x=1",
		"Account=alice", "ACCOUNT=alice", "account=bob; ACCOUNT=alice", "account[]=alice", "$Version=1; account=alice", "$Version=1; account=alice; $Path=/", "account", "account=", "=alice", "alice", "account=bob", "account==alice",
		"account=alice; " + strings.Repeat("x=1; ", 200), "x=" + strings.Repeat("x", 9000) + "; account=alice", "account=alice\xff", "account=alice\xa0",
	} {
		add(session, "Cookie: "+cookie)
	}
	for _, headers := range [][]string{
		{"Cookie: account=alice", "Cookie: account=bob"},
		{"Cookie: account=bob", "Cookie: account=alice"},
		{"Cookie: x=1", "Cookie: account=alice"},
		{"Cookie: account=alice", "Cookie: x=1"},
		{"Cookie: account=alice", "Cookie: "},
		{"COOKIE: account=alice"},
		{"Cookie2: account=alice"},
		{"Set-Cookie: account=alice"},
		{"Connection: Cookie", "Cookie: account=alice"},
		{"Cookie : account=alice"},
		{"X-Cookie: account=alice"},
	} {
		add(session, headers...)
	}
	for _, headers := range [][]string{
		{"X-Level: free"},
		{"x-level: free"},
		{"X-LEVEL:free"},
		{"X-Level:  free\t"},
		{"X-Level: gold", "X-Level: free"},
		{"X-Level: free", "X-Level: gold"},
		{"X-Level: free", "x-level: free"},
		{"X-Level: gold, free"},
		{"X-Level: free,gold"},
		{"X-Level: gold,free,x"},
		{"X-Level: free,"},
		{"X-Level: ,free"},
		{"X-Level: FREE"},
		{"X-Level: free;q=1"},
		{"X-Level: \"free\""},
		{"X-Level: " + strings.Repeat("x,", 200) + "free"},
		{"X-Level: gold"},
		{"X-Level:"},
	} {
		add(level, headers...)
	}
	http2 := func(of resource, path string, fields ...string) {
		s := spelling{of: of, fields: []header{{":method", "GET"}, {":scheme", "http"}, {":authority", "bank.example"}, {":path", path}}}
		for i := 0; i < len(fields); i += 2 {
			s.fields = append(s.fields, header{fields[i], fields[i+1]})
		}
		all = append(all, s)
	}
	for _, crumbs := range [][]string{{"account=alice"}, {"x=1", "account=alice"}, {"account=alice", "x=1"}, {"account=alice", "account=bob"}, {"account=bob", "account=alice"}, {"account=al", "ice"}, {"account=alice;", "x=1"}} {
		var fields []string
		for _, crumb := range crumbs {
			fields = append(fields, "cookie", crumb)
		}
		http2(session, session.path, fields...)
	}
	http2(profile, "/profile?account=alice")
	http2(profile, "/profile?account=alice#x")
	http2(profile, "/profile?x=1;account=alice")
	http2(level, "/level", "x-level", "gold", "x-level", "free")
	http2(level, "/level", "x-level", "free", "x-level", "gold")
	return all
}

// hex returns the digits of the escape of the byte.
func hex(c byte) string { return strconv.FormatUint(uint64(c), 16) }
