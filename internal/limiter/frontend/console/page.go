// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"
)

//go:embed templates
var templateFiles embed.FS

// pages are the templates by name, each with the layout and the parts that pages share.
var pages = parsePages("login", "failure", "overview", "policies", "policy", "key", "confirm", "try")

func parsePages(names ...string) map[string]*template.Template {
	shared := template.Must(template.New("").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	parsed := map[string]*template.Template{}
	for _, name := range names {
		page := template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
		parsed[name] = page
	}
	return parsed
}

// layout is the data of the layout.
type layout struct {
	Page, Title string
	CSRF        string
	// User is the claimed name of the operator; Guest is true without a session.
	User    string
	Guest   bool
	Session bool
	Minutes int64
	// Refresh is the address of this page with the other setting of the refresh; empty if the page
	// has none. Refreshing is true while the page refreshes itself.
	Refresh    string
	Refreshing bool
	Content    any
}

// refreshSeconds is the period of the refresh.
const refreshSeconds = 10

// refreshable are the pages that can refresh themselves.
var refreshable = []string{"overview", "policies", "policy", "key"}

// render answers with the page. It returns no problem, but an error of the template.
func (c *Console) render(v *visit, status int, page, title string, content any) error {
	data := &layout{Page: page, Title: title, CSRF: c.csrf(v.session), Content: content}
	if v.session != nil {
		data.Session, data.Guest, data.User = !v.session.guest, v.session.guest, v.session.claimedUser
		data.Minutes = max(1, int64(v.session.ends.Sub(c.now()).Round(time.Minute)/time.Minute))
	}
	if v.r.Method == http.MethodGet && status == http.StatusOK && slices.Contains(refreshable, page) {
		data.setRefresh(v)
	}
	var out bytes.Buffer
	if err := pages[page].ExecuteTemplate(&out, "layout", data); err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	v.w.WriteHeader(status)
	if v.r.Method != http.MethodHead {
		_, _ = v.w.Write(out.Bytes()) // an error means that the browser closed the connection
	}
	return nil
}

// setRefresh refreshes the page if its address asks for it. A person chooses it, since a page that
// changes by itself disturbs readers.
func (d *layout) setRefresh(v *visit) {
	query := v.r.URL.Query()
	if d.Refreshing = query.Get("refresh") != ""; d.Refreshing {
		v.w.Header().Set("Refresh", strconv.Itoa(refreshSeconds))
		query.Del("refresh")
	} else {
		query.Set("refresh", "on")
	}
	d.Refresh = v.r.URL.Path + "?" + query.Encode()
}

// failure is the data of an error page.
type failure struct{ Title, Detail string }

// fail answers with an error page.
func (c *Console) fail(v *visit, status int, title, detail string) error {
	return c.render(v, status, "failure", title, &failure{Title: title, Detail: detail})
}

// failWith answers with the page for an error of the API. Another error is one of this package: the operator port logs it
// and answers with status 500.
func (c *Console) failWith(v *visit, err error) {
	p, ok := errors.AsType[*problem](err)
	switch {
	case !ok:
	case p.Status == http.StatusUnauthorized:
		c.sessions.end(v.session.id)
		c.dropCookie(v)
		err = c.renderLogin(v, http.StatusUnauthorized, "The token of this session is not valid any more.")
	default:
		err = c.fail(v, p.Status, titleOf(p), p.Error())
	}
	if err != nil {
		panic(err)
	}
}

func titleOf(p *problem) string {
	switch p.Status {
	case http.StatusForbidden:
		return "You may not see or do this"
	case http.StatusNotFound:
		return "Not found"
	case http.StatusServiceUnavailable:
		return "No answer at the moment"
	default:
		return "This request is not valid"
	}
}
