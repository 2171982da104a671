// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
)

// spelling is a request that some server could take for the resource.
type spelling struct {
	of resource
	// bytes is a request of HTTP/1, fields is one of HTTP/2.
	bytes  string
	fields []header
}

// example is how the spelling is reported.
func (s *spelling) example() string {
	if s.fields != nil {
		return fmt.Sprintf("HTTP/2 %q", s.fields)
	}
	return fmt.Sprintf("%q", s.bytes)
}

// line returns a request without a body, with further headers.
func line(method, target, version, host string, headers ...string) string {
	lines := append([]string{method + " " + target + " " + version, "Host: " + host}, headers...)
	if method != "GET" && method != "HEAD" {
		lines = append(lines, "Content-Length: 0")
	}
	return strings.Join(append(lines, "Connection: close", "\r\n"), "\r\n")
}

// targetSpellings are spellings of the path, for all kinds of servers.
func targetSpellings() (all []spelling) {
	paths := []string{
		"/login", "/login?", "/login?x=/../y", "/login?%2f..", "/login#", "/login#/x", "/x#/../login", "/x?/../login", "/login%3F", "/login%23", "/login??", "/login&x", "/login=x",
		"//login", "///login", "/./login", "/././login", "/x/../login", "/x/y/../../login", "/../login", "/../../login", "/x//../login", "//x/../login",
		"/login/", "/login//", "/login/.", "/login/./", "/login/x/..", "/login/../login", "/login/x/../", "/login/..", "/.//login", "/..//login", "/x/./../login",
		"/...//login", "/.../login", "/x/.../login", "/;/login", "/;x/login", "/x/;../login", "/x/..;/login", "/x/..;a=b/login", "/login;", "/login;x", "/login;x=y", "/login;/", "/login;/..", "/;login",
		"/LOGIN", "/Login", "/logiN", "/LogIn/", "/login.", "/login..", "/login...", "/login%2e", "/login%20", "/login%20%20", "/login+", "/login%09", "/login%0a", "/login%0d%0a", "/%20login", "/%0alogin",
		"/login%00", "/login%00.png", "/login%00/x", "/%00login", "/login%01", "/login%7f", "/login%80", "/login%ff", "/login\x80", "/login\xff",
		`\login`, `/\login`, `//\login`, `/x\..\login`, `/x/..\login`, `/.\login`, `/login\`, `/login\..\login`, `/%5clogin`, `/x%5c..%5clogin`, `/x/..%5clogin`, `/login%5c`, `/%5Clogin`,
		"/%2flogin", "/%2Flogin", "/x%2f..%2flogin", "/x/..%2flogin", "/x/..%2Flogin", "/x%2f../login", "/login%2f", "/login%2F", "/login%2f..%2flogin", "/login%2f.", "%2flogin", "/.%2flogin", "/%2f%2flogin",
		"/%2e/login", "/%2E/login", "/x/%2e%2e/login", "/x/.%2e/login", "/x/%2e./login", "/%2e%2e/login", "/x/%2E%2E/login", "/x/%2e%2e%2flogin", "/login/%2e", "/login/x/%2e%2e",
		"/%6cogin", "/%6Cogin", "/l%6fgin", "/lo%67in", "/log%69n", "/logi%6e", "/logi%6E", "/%6c%6f%67%69%6e", "/%4cogin", "/%4C%4F%47%49%4E",
		"/%256cogin", "/%25%36cogin", "/%%36cogin", "/x/%252e%252e/login", "/x%252f..%252flogin", "/login%252f", "/login%253b", "/%252flogin", "/login%2500", "/%255clogin", "/%25%32%66login",
		"/%c0%afl", "/x/..%c0%aflogin", "/%c0%aflogin", "/%e0%80%aflogin", "/%ef%bc%8flogin", "/x/%c0%ae%c0%ae/login", "/x/%ef%bc%8e%ef%bc%8e/login", "/%u002flogin", "/%u006cogin", "/\xc0\xaflogin", "/%c5%80ogin", "/log%c4%b1n", "/login%e2%80%8b", "/login%c2%a0",
		"/%", "/login%", "/login%2", "/login%zz", "/%6", "/login%%", "/%g0login", "/login,", "/login'", "/login\"", "/login|x", "/login^", "/login`", "/login{}", "/login[]", "/login<>", "/login~", "/login!", "/login$", "/login*", "/login(x)", "/login@x", "/login:80", "/login:",
		"/login?;/", "/;a=b/;c=d/login", "/x;y/../login", "/login;%00", "/login;%2f", "/login%3b", "/login%3Bx=y", "/x/..%3b/login", "/%3b/login", "/x/%2e%2e;/login", "/x/.;/../login", "/.;/login", "/.;x/login",
		"login", "x/../login", "*", "", "?/login", "/login\t", "/log\tin", "/login\x0b", "/login\x0c", "/lo\x00gin", "/login\x00", "/login x",
	}
	for _, path := range paths {
		all = append(all, spelling{of: login, bytes: line("POST", path, "HTTP/1.1", "bank.example")})
	}
	return append(all, authoritySpellings()...)
}

// authoritySpellings are spellings of the host, also in the absolute form of the target.
func authoritySpellings() (all []spelling) {
	hosts := []string{
		"bank.example", "BANK.example", "Bank.Example", "bank.EXAMPLE:80", "bank.example.", "bank.example..", "bank.example:80", "bank.example:443", "bank.example:", "bank.example:080", "bank.example:8080",
		"bank.example.:80", "BANK.EXAMPLE.:443", " bank.example", "bank.example ", "\tbank.example", "bank.example\t", "bank.example,x", "x,bank.example", "bank.example, bank.example",
		"x@bank.example", "x:y@bank.example", "bank.example@x", "bank%2eexample", "%62ank.example", "bank.example%00", "bank.example%20", "bank.example/", "bank.example/login", "bank.example?x", "bank.example#x", "bank.example;x", `bank.example\x`,
		"bank.example:80:80", "bank.example:x", "[bank.example]", "bank.example\x00", "bank_example", "bank。example", "bank．example", "ban\u212a.example", "xn--bank.example", "http://bank.example", "//bank.example", "other.example", "", ".bank.example", "*.example", "bank.example:0", "bank.example:-1", "bank.example:99999", "'bank.example'", `"bank.example"`,
	}
	for _, host := range hosts {
		all = append(all, spelling{of: login, bytes: line("POST", "/login", "HTTP/1.1", host)})
		if !strings.ContainsAny(host, " \t/?#") && host != "" {
			for _, scheme := range []string{"http", "HTTP"} {
				all = append(all, spelling{of: login, bytes: line("POST", scheme+"://"+host+"/login", "HTTP/1.1", "other.example")})
			}
		}
	}
	for _, target := range []string{
		"http://bank.example/login", "https://bank.example/login", "HTTPS://bank.example/login", "ftp://bank.example/login", "ws://bank.example/login", "x://bank.example/login", "http:/login", "http:login", "http:///login", "http://bank.example//login",
		"http://bank.example/x/../login", "http://bank.example/%6cogin", "http://bank.example/login?x", "http://bank.example/login#x", "http://bank.example", "http://bank.example?/login", "http:\\\\bank.example\\login", "//bank.example/login", "bank.example/login", "bank.example:80/login",
	} {
		all = append(all,
			spelling{of: login, bytes: line("POST", target, "HTTP/1.1", "other.example")},
			spelling{of: login, bytes: line("POST", target, "HTTP/1.1", "bank.example")},
		)
	}
	for _, hosts := range [][2]string{{"bank.example", "other.example"}, {"other.example", "bank.example"}, {"bank.example", "bank.example"}} {
		all = append(all, spelling{of: login, bytes: line("POST", "/login", "HTTP/1.1", hosts[0], "Host: "+hosts[1])})
	}
	return all
}
