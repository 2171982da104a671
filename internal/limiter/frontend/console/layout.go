// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"net/url"
	"strconv"
)

// layout is the data of the frame around every page: its head, header and footer.
type layout struct {
	Page, Title string
	CSRF        string
	// User is the claimed name of the operator; Guest is true without a session.
	User    string
	Guest   bool
	Session bool
	Minutes int64
	// Refresh is this page with the other setting of the refresh; empty if the page has none.
	// Refreshing is true while the page refreshes itself.
	Refresh    link
	Refreshing bool
	Content    content
}

// content is the page within the layout.
type content interface{ write(m *markup, l *layout) }

// setRefresh offers the page at the path and the query with the other setting of the refresh. A person chooses it, since a
// page that changes by itself disturbs readers.
func (l *layout) setRefresh(path string, query url.Values) {
	if l.Refreshing = query.Get("refresh") != ""; l.Refreshing {
		query.Del("refresh")
	} else {
		query.Set("refresh", "on")
	}
	l.Refresh = linkTo(path, query)
}

// write writes the whole page.
func (l *layout) write(m *markup) {
	m.add(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>% · Weir</title>
<link rel="stylesheet" href="/console/static/style.css">
<link rel="icon" type="image/svg+xml" href="/console/static/icon.svg">
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<div class="bar">
<a class="brand" href="/console/"><img src="/console/static/icon.svg" alt="" width="24" height="24">Weir</a>`, l.Title)
	if l.Session || l.Guest {
		l.writeNavigation(m)
	}
	m.add(`<div class="session">`)
	l.writeSession(m)
	m.add(`</div>
</div>
</header>
<main id="main" tabindex="-1">`)
	l.Content.write(m, l)
	m.add(`</main>`)
	if l.Refresh != "" {
		l.writeFooter(m)
	}
	m.add(`</body>
</html>`)
}

func (l *layout) writeNavigation(m *markup) {
	m.add(`<nav aria-label="Pages">
<ul>`)
	for _, entry := range [...]struct{ page, path, name literal }{
		{"overview", "", "Overview"}, {"policies", "policies", "Policies"}, {"try", "try", "Try"},
	} {
		m.add(`<li><a href="/console/` + entry.path + `"`)
		m.addIf(l.Page == string(entry.page), ` aria-current="page"`)
		m.add(">" + entry.name + "</a></li>")
	}
	m.add(`</ul>
</nav>`)
}

func (l *layout) writeSession(m *markup) {
	switch {
	case l.Session:
		m.with(l.User, `<span class="who">%</span>`)
		m.add(`<span class="ends num">ends in % min</span>
<form method="post" action="/console/logout"><input type="hidden" name="csrf" value="%"><button class="quiet">Log out</button></form>`,
			strconv.FormatInt(l.Minutes, 10), l.CSRF)
	case l.Guest:
		m.add(`<span class="ends">Read only</span>`)
	}
}

func (l *layout) writeFooter(m *markup) {
	m.add(`<footer><div class="bar">`)
	if l.Refreshing {
		m.add(`<span>This page refreshes every 10 seconds.</span> `)
		m.link(l.Refresh, "Stop refreshing")
	} else {
		m.link(l.Refresh, "Refresh every 10 seconds")
	}
	m.add(`</div></footer>`)
}
