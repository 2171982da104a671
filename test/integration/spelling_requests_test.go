// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import "strings"

// requestSpellings are spellings of methods, versions and headers.
func requestSpellings() (all []spelling) {
	for _, method := range []string{"post", "Post", "POSt", "POST", " POST", "POST ", "\tPOST", "PUT", "PATCH", "P0ST", "POST\x00", "GET", "HEAD", "OPTIONS", "DELETE", "TRACE", "CONNECT", "PROPFIND", "M-SEARCH", "QUERY", "FOO"} {
		all = append(all, spelling{of: login, bytes: line(method, "/login", "HTTP/1.1", "bank.example")},
			spelling{of: login, bytes: line(method, "/login", "HTTP/1.1", "bank.example", "X-HTTP-Method-Override: POST")})
	}
	for _, method := range []string{"HEAD", "head", "Get", "get", "GET", "OPTIONS", "POST"} {
		all = append(all, spelling{of: search, bytes: line(method, "/search", "HTTP/1.1", "bank.example")})
	}
	for _, version := range []string{"HTTP/1.0", "HTTP/1.1", "HTTP/0.9", "HTTP/1.2", "HTTP/1.9", "HTTP/2.0", "HTTP/3", "HTTP/11.1", "HTTP/1.01", "http/1.1", "HTTP/1", "HTTPS/1.1", "", "XHTTP/1.1"} {
		all = append(all,
			spelling{of: login, bytes: line("POST", "/login", version, "bank.example")},
			spelling{of: login, bytes: line("POST", "http://bank.example/login", version, "other.example")},
		)
	}
	for _, text := range []string{
		"POST /login HTTP/1.0\r\nContent-Length: 0\r\n\r\n", "POST /login HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "POST http://bank.example/login HTTP/1.0\r\nContent-Length: 0\r\n\r\n", "POST /login\r\n\r\n", "GET /search\r\n\r\n",
		"POST  /login HTTP/1.1\r\nHost: bank.example\r\nContent-Length: 0\r\n\r\n", "POST\t/login\tHTTP/1.1\r\nHost: bank.example\r\nContent-Length: 0\r\n\r\n", "POST /login  HTTP/1.1\r\nHost: bank.example\r\nContent-Length: 0\r\n\r\n", "\r\nPOST /login HTTP/1.1\r\nHost: bank.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"POST /login HTTP/1.1\nHost: bank.example\nContent-Length: 0\nConnection: close\n\n", "POST /login HTTP/1.1\r\nHost : bank.example\r\nContent-Length: 0\r\n\r\n", "POST /login HTTP/1.1\r\n Host: bank.example\r\nContent-Length: 0\r\n\r\n", "POST /login HTTP/1.1\r\nHost:\r\n bank.example\r\nContent-Length: 0\r\n\r\n",
	} {
		all = append(all, spelling{of: login, bytes: text})
	}
	for _, name := range []string{"X-Original-URL", "X-Original-URI", "X-Rewrite-URL", "X-Forwarded-Uri", "X-Forwarded-Path", "X-Envoy-Original-Path", ":path", "X-Forwarded-Prefix"} {
		all = append(all, spelling{of: login, bytes: line("POST", "/else", "HTTP/1.1", "bank.example", name+": /login")},
			spelling{of: login, bytes: line("POST", "/login", "HTTP/1.1", "bank.example", name+": /else")})
	}
	for _, name := range []string{"X-Forwarded-Host", "X-Host", "Forwarded", "X-Original-Host", ":authority", "X-Envoy-Original-Host", "X-Forwarded-Server"} {
		value := strings.ReplaceAll(name, "Forwarded", "host=")
		_, isList := strings.CutPrefix(value, "host=")
		if !isList {
			value = ""
		}
		all = append(all, spelling{of: login, bytes: line("POST", "/login", "HTTP/1.1", "other.example", name+": "+value+"bank.example")},
			spelling{of: login, bytes: line("POST", "/login", "HTTP/1.1", "bank.example", name+": "+value+"other.example")})
	}
	for _, name := range []string{"X-Forwarded-Method", "X-Original-Method", "X-Method-Override", "X-HTTP-Method", ":method"} {
		all = append(all, spelling{of: login, bytes: line("GET", "/login", "HTTP/1.1", "bank.example", name+": POST")},
			spelling{of: login, bytes: line("POST", "/login", "HTTP/1.1", "bank.example", name+": GET")})
	}
	return append(append(all, accountSpellings()...), framingSpellings()...)
}

// accountSpellings are spellings of the header with the account.
func accountSpellings() (all []spelling) {
	for _, headers := range [][]string{
		{"X-Api-Key: alice"},
		{"x-api-key: alice"},
		{"X-API-KEY: alice"},
		{"X-Api-Key:alice"},
		{"X-Api-Key:  alice  "},
		{"X-Api-Key:\talice\t"},
		{"X-Api-Key : alice"},
		{" X-Api-Key: alice"},
		{"X-Api-Key\t: alice"},
		{"X_Api_Key: alice"},
		{"x_api_key: alice"},
		{"X-Api_Key: alice"},
		{"X-Api-Key: bob", "X_Api_Key: alice"},
		{"X_Api_Key: bob", "X-Api-Key: alice"},
		{"X.Api.Key: alice"},
		{"X Api Key: alice"},
		{"X-Api-Key: alice", "X-Api-Key: bob"},
		{"X-Api-Key: bob", "X-Api-Key: alice"},
		{"X-Api-Key: alice", "X-Api-Key: alice"},
		{"X-Api-Key: alice", "x-api-key: bob"},
		{"X-Api-Key: bob", "x-api-key: alice"},
		{"X-Api-Key: alice", "X-Api-Key:"},
		{"X-Api-Key:", "X-Api-Key: alice"},
		{"X-Api-Key: alice", "X-Other: x", "X-Api-Key: bob"},
		{"X-Api-Key: alice,bob"},
		{"X-Api-Key: alice, bob"},
		{"X-Api-Key: bob,alice"},
		{"X-Api-Key: alice,"},
		{"X-Api-Key: ,alice"},
		{"X-Api-Key: alice;x"},
		{"X-Api-Key: \"alice\""},
		{"X-Api-Key: alice\r\n bob"},
		{"X-Api-Key:\r\n alice"},
		{"X-Api-Key: alice\r\n\t"},
		{"X-Api-Key: al\x00ice"},
		{"X-Api-Key: alice\x00"},
		{"X-Api-Key: alice\x0b"},
		{"X-Api-Key: alice\xa0"},
		{"X-Api-Key: Alice"},
		{"X-Api-Key: ali\rce"},
		{"X-Api-Key: alice\r"},
		{"X-Other: x\nX-Api-Key: alice"},
		{"X-Other: x\rX-Api-Key: alice"},
		{"Connection: X-Api-Key", "X-Api-Key: alice"},
		{"Connection: close, X-Api-Key", "X-Api-Key: alice"},
		{"Keep-Alive: X-Api-Key", "X-Api-Key: alice"},
		{"X-Api-Key"},
		{": alice"},
		{"X-Api-Key: "},
		{"X-Api-Key: bob"},
	} {
		all = append(all, spelling{of: account, bytes: line("GET", "/account", "HTTP/1.1", "bank.example", headers...)})
	}
	return all
}

// framingSpellings have bodies and trailers, which could hide a header or another request.
func framingSpellings() (all []spelling) {
	const start = " HTTP/1.1\r\nHost: bank.example\r\nConnection: close\r\n"
	hidden := "POST /login HTTP/1.1\r\nHost: bank.example\r\nContent-Length: 0\r\n\r\n"
	for _, trailers := range []string{"X-Api-Key: alice\r\n", "x-api-key: alice\r\n", "X-Other: x\r\nX-Api-Key: alice\r\n", "Host: bank.example\r\nX-Api-Key: alice\r\n", ":path: /login\r\n"} {
		for _, announced := range []string{"", "Trailer: X-Api-Key\r\n", "X-Api-Key: bob\r\n", "TE: trailers\r\n"} {
			all = append(all, spelling{of: account, bytes: "GET /account" + start + announced + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n" + trailers + "\r\n"})
		}
	}
	for _, framing := range []string{
		"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"Content-Length: 0\r\nContent-Length: 0\r\n\r\n", "Content-Length: 0, 0\r\n\r\n", "Content-Length: +0\r\n\r\n", "Content-Length: 0\r\n\r\n" + hidden, "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden, "Content-Length: 0\r\nContent-Length: 66\r\n\r\n" + hidden,
		"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n", "Upgrade: websocket\r\nContent-Length: 0\r\n\r\n", "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 0\r\n\r\n",
	} {
		all = append(all, spelling{of: login, bytes: "POST /login" + start + framing}, spelling{of: login, bytes: "POST /else" + start + framing})
	}
	return all
}

// pseudoSpellings are requests of HTTP/2.
func pseudoSpellings() (all []spelling) {
	add := func(of resource, fields ...string) {
		s := spelling{of: of}
		for i := 0; i < len(fields); i += 2 {
			s.fields = append(s.fields, header{fields[i], fields[i+1]})
		}
		all = append(all, s)
	}
	for _, path := range []string{"/login", "//login", "/x/../login", "/%6cogin", "/login;x", "/login%2f", `/x\..\login`, "/LOGIN", "/login?x", "/login#x", "login", "", "*", "http://bank.example/login", "/login HTTP/1.1", "/login\r\nX: y", "/login\x00", "/login\t", "/login%00"} {
		add(login, ":method", "POST", ":scheme", "http", ":authority", "bank.example", ":path", path)
		add(login, ":method", "POST", ":scheme", "http", ":authority", "other.example", ":path", path, "host", "bank.example")
	}
	for _, authority := range []string{"BANK.example", "bank.example:80", "bank.example.", "x@bank.example", "bank.example/", "bank.example,x", "", "bank%2eexample", "bank.example\r\nX: y", " bank.example"} {
		add(login, ":method", "POST", ":scheme", "http", ":authority", authority, ":path", "/login")
		add(login, ":method", "POST", ":scheme", "http", ":authority", authority, ":path", "/login", "host", "other.example")
		add(login, ":method", "POST", ":scheme", "http", ":path", "/login", "host", authority)
	}
	for _, method := range []string{"post", "Post", "POST /login HTTP/1.1", "POST\r\nX: y", "", "CONNECT", "GET"} {
		add(login, ":method", method, ":scheme", "http", ":authority", "bank.example", ":path", "/login")
	}
	for _, scheme := range []string{"https", "HTTP", "", "x", "http://bank.example/login?"} {
		add(login, ":method", "POST", ":scheme", scheme, ":authority", "bank.example", ":path", "/login")
	}
	add(login, ":method", "POST", ":scheme", "http", ":authority", "bank.example", ":path", "/else", ":path", "/login")
	add(login, ":method", "POST", ":scheme", "http", ":authority", "other.example", ":authority", "bank.example", ":path", "/login")
	add(login, ":method", "GET", ":method", "POST", ":scheme", "http", ":authority", "bank.example", ":path", "/login")
	add(login, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":authority", "bank.example", ":path", "/login")
	add(login, "x-early", "x", ":method", "POST", ":scheme", "http", ":authority", "bank.example", ":path", "/login")
	for _, fields := range [][]string{{"x-api-key", "alice"}, {"X-Api-Key", "alice"}, {"x-api-key", "alice", "x-api-key", "bob"}, {"x-api-key", "bob", "x-api-key", "alice"}, {"x_api_key", "alice"}, {"x-api-key", "alice\x00"}, {"x-api-key", " alice"}, {"x-api-key", "alice\r\nX: y"}, {"connection", "x-api-key", "x-api-key", "alice"}, {"cookie", "a", "cookie", "b", "x-api-key", "alice"}} {
		add(account, append([]string{":method", "GET", ":scheme", "http", ":authority", "bank.example", ":path", "/account"}, fields...)...)
	}
	return all
}
