// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"net/url"
	"strings"
)

// resource is what a policy limits.
type resource struct{ method, host, path, account string }

// The resources of the policies. The account is the key, or empty.
var (
	login   = resource{method: "POST", host: "bank.example", path: "/login"}
	search  = resource{method: "GET", host: "bank.example", path: "/search"}
	account = resource{method: "GET", host: "bank.example", path: "/account", account: "alice"}
)

// reader is a way in which servers interpret a request. The plain one is the first: the others
// differ from it in one point, which the table in docs/security.md names.
type reader struct {
	name string
	read func(r *request) resource
}

var readers = []reader{
	{"as in RFC 3986 and RFC 9110", readPlain},
	{"escaped slash as slash", path(func(p string) string { return resolve(decode(p)) })},
	{"user in the host ignored, or its escapes decoded", func(r *request) resource {
		read := readPlain(r)
		read.host = read.host[strings.LastIndexByte(read.host, '@')+1:]
		if i := strings.LastIndexByte(r.first("Host"), '@'); i >= 0 {
			read.host = hostOf(r.first("Host")[i+1:])
		}
		read.host = decode(read.host)
		return read
	}},
	{"case ignored", path(func(p string) string { return strings.ToLower(clean(p)) })},
	{"slash at the end ignored", path(func(p string) string { return cmp.Or(strings.TrimRight(clean(p), "/"), "/") })},
	{"parameters after `;` removed", path(func(p string) string { return clean(withoutParameters(p)) })},
	{"escapes decoded twice", path(func(p string) string { return clean(decode(p)) })},
	{"backslash as slash", path(func(p string) string { return resolve(strings.ReplaceAll(clean(p), `\`, "/")) })},
	{"cut at NUL", path(func(p string) string {
		p, _, _ = strings.Cut(clean(p), "\x00")
		return p
	})},
	{"dots and spaces at the end removed", path(func(p string) string { return strings.TrimRight(clean(p), ". \t\r\n") })},
	{"`HEAD` handled as `GET`", func(r *request) resource {
		read := readPlain(r)
		if read.method == "HEAD" {
			read.method = "GET"
		}
		return read
	}},
	{"method from `X-HTTP-Method-Override`", func(r *request) resource {
		read := readPlain(r)
		read.method = cmp.Or(strings.ToUpper(r.first("X-HTTP-Method-Override")), read.method)
		return read
	}},
	{"path from `X-Original-URL`", func(r *request) resource {
		read := readPlain(r)
		read.path = cmp.Or(r.first("X-Original-URL"), read.path)
		return read
	}},
	{"host from `X-Forwarded-Host`", func(r *request) resource {
		read := readPlain(r)
		read.host = cmp.Or(hostOf(r.first("X-Forwarded-Host")), read.host)
		return read
	}},
	{"first of repeated headers", func(r *request) resource {
		read := readPlain(r)
		switch read.path {
		case account.path:
			read.account = r.first("X-Api-Key")
		case level.path:
			read.account = r.first("X-Level")
		}
		return read
	}},
	{"last of repeated headers", func(r *request) resource {
		read := readPlain(r)
		name := map[string]string{account.path: "X-Api-Key", level.path: "X-Level"}[read.path]
		if values := r.all(name); len(values) > 0 {
			read.account = values[len(values)-1]
		}
		return read
	}},
	{"first of values joined with commas", func(r *request) resource {
		read := readPlain(r)
		first, _, _ := strings.Cut(read.account, ",")
		read.account = strings.TrimSpace(first)
		return read
	}},
	{"`_` as `-` in names of headers", func(r *request) resource {
		read := readPlain(r)
		for _, h := range r.headers {
			if strings.Contains(h.name, "_") && strings.EqualFold(strings.ReplaceAll(h.name, "_", "-"), "X-Api-Key") {
				read.account = h.value
			}
		}
		return read
	}},
	{"trailers as headers", func(r *request) resource {
		read := readPlain(r)
		for _, h := range r.trailers {
			if strings.EqualFold(h.name, "X-Api-Key") {
				read.account = h.value
			}
		}
		return read
	}},
}

// readPlain interprets the request by RFC 3986 and RFC 9110: escapes are decoded once, an escaped
// slash separates nothing, dots and empty segments are resolved, and repeated headers joined.
func readPlain(r *request) resource {
	host, target := split(r.target)
	return resource{
		method:  strings.ToUpper(r.method),
		host:    hostOf(cmp.Or(host, r.first("Host"))),
		path:    clean(target),
		account: standard().valueOf(r, clean(target)),
	}
}

// path is a reader that interprets the path in another way.
func path(read func(path string) string) func(r *request) resource {
	return func(r *request) resource {
		plain := readPlain(r)
		_, target := split(r.target)
		plain.path = read(target)
		return plain
	}
}

// split returns the host of an absolute target, and the path without query and fragment.
func split(target string) (host, path string) {
	if _, rest, absolute := strings.Cut(target, "://"); absolute && !strings.HasPrefix(target, "/") {
		host, path, _ = strings.Cut(rest, "/")
		target = "/" + path
	}
	if i := strings.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	return host, target
}

// hostOf returns the host in lower case, without port and final dot.
func hostOf(authority string) string {
	host, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(authority)), ":")
	return strings.TrimSuffix(host, ".")
}

// clean decodes all escapes but slashes, and resolves the path.
func clean(path string) string {
	path = strings.ReplaceAll(strings.ReplaceAll(path, "%2f", "%252f"), "%2F", "%252F")
	return resolve(decode(path))
}

// decode decodes valid escapes.
func decode(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if i+2 < len(path) && path[i] == '%' {
			if c, err := url.PathUnescape(path[i : i+3]); err == nil {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// resolve removes empty segments and dots. A slash at the end is kept. It does not call plan.NormalizePath, because
// the test compares the two.
func resolve(path string) string {
	var kept []string
	segments := strings.Split(path, "/")
	for _, s := range segments {
		switch s {
		case "", ".":
		case "..":
			kept = kept[:max(len(kept)-1, 0)]
		default:
			kept = append(kept, s)
		}
	}
	clean := "/" + strings.Join(kept, "/")
	if last := segments[len(segments)-1]; len(kept) > 0 && (last == "" || last == "." || last == "..") {
		clean += "/"
	}
	return clean
}

func withoutParameters(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return strings.Join(segments, "/")
}
