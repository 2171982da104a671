// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"net/url"
	"strings"
)

// markup is HTML that is being written. Values enter it only through add and its like, which escape them. So no template
// calls methods by name, and the linker can remove unused methods.
type markup struct{ bytes.Buffer }

// literal is HTML of this package. Constants convert to it by themselves, variables do not: what others
// choose cannot become one by mistake.
type literal string

// escaper escapes text for elements and for quoted attributes, as html/template does.
var escaper = strings.NewReplacer(
	"\x00", "\uFFFD", `"`, "&#34;", "&", "&amp;", "'", "&#39;", "+", "&#43;", "<", "&lt;", ">", "&gt;",
)

// add writes the HTML, with each % replaced by the next value, and without its line breaks, which are for readers of the
// source. It panics unless there are as many of both.
func (m *markup) add(html literal, values ...string) {
	rest := strings.ReplaceAll(string(html), "\n", "")
	for _, value := range values {
		before, after, found := strings.Cut(rest, "%")
		if !found {
			panic("console: too many values for " + html)
		}
		m.WriteString(before)
		_, _ = escaper.WriteString(m, value) // never fails
		rest = after
	}
	if strings.Contains(rest, "%") {
		panic("console: too few values for " + html)
	}
	m.WriteString(rest)
}

// addIf writes the HTML if the condition holds.
func (m *markup) addIf(condition bool, html literal) {
	if condition {
		m.add(html)
	}
}

// with writes the HTML, which has one %, unless the value is empty.
func (m *markup) with(value string, html literal) {
	if value != "" {
		m.add(html, value)
	}
}

// withNumber writes the HTML, which has one %, unless the number is 0.
func (m *markup) withNumber(n int64, html literal) {
	if n != 0 {
		m.add(html, number(n))
	}
}

// each writes the HTML, which has one %, for every value.
func (m *markup) each(values []string, html literal) {
	for _, value := range values {
		m.add(html, value)
	}
}

// link is an address within the console. Only functions of this file make one.
type link string

// linkTo returns the link to a path of the console.
func linkTo(path string, query url.Values) link { return link(path + "?" + query.Encode()) }

// linkToPolicy returns the link to the page of a policy.
func linkToPolicy(policy string) link { return linkTo(pathPolicy, url.Values{"policy": {policy}}) }

// linkToKey returns the link to the page of a listed key.
func linkToKey(policy, hash string) link {
	return linkTo(pathKey, url.Values{"policy": {policy}, "keyHash": {hash}})
}

// link writes a link with a text.
func (m *markup) link(to link, text string) { m.add(`<a href="%">%</a>`, string(to), text) }

// button writes a link that looks like a button.
func (m *markup) button(to link, text string) {
	m.add(`<a class="button" href="%">%</a>`, string(to), text)
}

// policyLink writes the link to a policy.
func (m *markup) policyLink(policy string) { m.link(linkToPolicy(policy), policy) }
