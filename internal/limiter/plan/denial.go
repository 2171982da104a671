// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Denial is the part of a denied response that the policy sets.
type Denial struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// Status, Headers and Body replace the 429 of a limit or a block where the client of a proxy
	// receives it. They are zero by default.
	Status  int            `json:"status,omitzero"`
	Headers []DenialHeader `json:"headers,omitempty"`
	Body    DenialBody     `json:"body,omitzero"`
}

// DenialHeader is a header of a denied response.
type DenialHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// DenialBody is the body of a denied response.
type DenialBody struct {
	ContentType string `json:"contentType"`
	Template    string `json:"template"`
}

const (
	maxDenialHeaders = 8
	maxTemplateBytes = 4 * 4096
	maxPlaceholders  = 16
)

// The placeholders of a template.
const (
	placeholderRetryAfter = "{{retryAfter}}" // whole seconds, 0 if waiting does not help
	placeholderPolicy     = "{{policy}}"
	placeholderLimit      = "{{limit}}" // empty if no limit denied
)

var placeholders = []string{placeholderRetryAfter, placeholderPolicy, placeholderLimit}

// contentTypes are the types of bodies, with the function that escapes a value in them.
var contentTypes = map[string]func(string) string{
	"application/json":         escapeJSON,
	"application/problem+json": escapeJSON,
	"text/html":                html.EscapeString,
	"text/plain":               func(value string) string { return value },
}

// escapeJSON escapes the value for a string of JSON.
func escapeJSON(value string) string {
	quoted, _ := json.Marshal(value) //nolint:errchkjson // a string has no error
	return string(quoted[1 : len(quoted)-1])
}

// ContentTypeHeader returns the value of the header Content-Type.
func (b *DenialBody) ContentTypeHeader() string {
	if strings.HasPrefix(b.ContentType, "text/") {
		return b.ContentType + "; charset=utf-8"
	}
	return b.ContentType
}

// Append appends the body to text. retryAfter is in whole seconds.
func (b *DenialBody) Append(text []byte, retryAfter int64, policy, limit string) []byte {
	rest := b.Template
	for {
		before, after, found := strings.Cut(rest, "{{")
		text = append(text, before...)
		if !found {
			return text
		}
		switch name, tail, _ := strings.Cut(after, "}}"); "{{" + name + "}}" {
		case placeholderRetryAfter:
			text, rest = strconv.AppendInt(text, retryAfter, 10), tail
		case placeholderPolicy:
			text, rest = append(text, contentTypes[b.ContentType](policy)...), tail
		case placeholderLimit:
			text, rest = append(text, contentTypes[b.ContentType](limit)...), tail
		default: // Validate rejects it
			text, rest = append(text, "{{"...), after
		}
	}
}

// Problem returns why the template is invalid for its type; empty if it is valid.
func (b *DenialBody) Problem() string {
	if len(b.Template) > maxTemplateBytes {
		return fmt.Sprintf("must be at most %d bytes", maxTemplateBytes)
	}
	count := 0
	for rest := b.Template; ; count++ {
		_, after, found := strings.Cut(rest, "{{")
		if !found {
			break
		}
		name, tail, closed := strings.Cut(after, "}}")
		if !closed || !slices.Contains(placeholders, "{{"+name+"}}") {
			return "has an unknown placeholder {{" + firstLine(name) + "}}: write one of " + strings.Join(placeholders, ", ")
		}
		rest = tail
	}
	if count > maxPlaceholders {
		return fmt.Sprintf("has %d placeholders, at most %d are allowed", count, maxPlaceholders)
	}
	if strings.HasSuffix(b.ContentType, "json") && !b.isJSON() {
		return "is not valid JSON with a number or names in place of its placeholders: names must stand in strings"
	}
	return ""
}

// isJSON reports whether the body is JSON whatever is in place of the placeholders. An x continues no number,
// no literal and no escape.
func (b *DenialBody) isJSON() bool {
	isBroken := func(retryAfter int64) bool { return !json.Valid(b.Append(nil, retryAfter, "x/x", "x")) }
	return !slices.ContainsFunc([]int64{0, 1, 98765}, isBroken)
}

// firstLine returns at most the first 30 characters of the first line.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	runes := []rune(line)
	return string(runes[:min(len(runes), 30)])
}

// reservedHeaders are the names of headers, in lower case, that a denial must not set: Weir sets them, the
// connection needs them, or they would do more than explain the denial.
var reservedHeaders = []string{
	"connection", "content-encoding", "content-length", "content-type", "date", "host", "keep-alive", "location",
	"proxy-authenticate", "proxy-authorization", "proxy-connection", "retry-after", "set-cookie", "te", "trailer",
	"transfer-encoding", "upgrade",
}

// reservedPrefixes begin further names that a denial must not set.
var reservedPrefixes = []string{"ratelimit", "weir-", "x-ratelimit-", "x-envoy-"}

// Problem returns why the header is invalid; empty if it is valid.
func (h *DenialHeader) Problem() string {
	isToken := func(r rune) bool { return r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' }
	name := strings.ToLower(h.Name)
	switch {
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return !isToken(r) }):
		return "name must consist of letters, digits, - and _"
	case slices.Contains(reservedHeaders, name),
		slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
		return "name must not be " + h.Name + ", which a denial cannot set"
	case strings.ContainsFunc(h.Value, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsControl(r) }):
		return "value must be printable ASCII"
	}
	return ""
}

// validateDenial reports violations of the rules of Denial.
func (p *Plan) validateDenial(fail func(string, ...any)) {
	d := &p.Denial
	if !slices.Contains([]int{0, 403, 429, 503}, d.Status) {
		fail("denial.status %d", d.Status)
	}
	if len(d.Headers) > maxDenialHeaders {
		fail("%d headers of a denial", len(d.Headers))
	}
	for i := range d.Headers {
		if problem := d.Headers[i].Problem(); problem != "" {
			fail("denial.headers[%d]: %s", i, problem)
		}
	}
	if d.Body == (DenialBody{}) {
		return
	}
	if contentTypes[d.Body.ContentType] == nil {
		fail("denial.body.contentType %q", d.Body.ContentType)
	} else if problem := d.Body.Problem(); problem != "" {
		fail("denial.body.template %s", problem)
	}
}
