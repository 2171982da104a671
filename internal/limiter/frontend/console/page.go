// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// refreshSeconds is the period of the refresh.
const refreshSeconds = 10

// refreshable are the pages that can refresh themselves.
var refreshable = []string{"overview", "policies", "policy", "key"}

// render answers with the page.
func (c *Console) render(v *visit, status int, page, title string, content content) error {
	data := &layout{Page: page, Title: title, CSRF: c.csrf(v.session), Content: content}
	if v.session != nil {
		data.Session, data.Guest, data.User = !v.session.guest, v.session.guest, v.session.claimedUser
		data.Minutes = max(1, int64(v.session.ends.Sub(c.now()).Round(time.Minute)/time.Minute))
	}
	if v.r.Method == http.MethodGet && status == http.StatusOK && slices.Contains(refreshable, page) {
		data.setRefresh(v.r.URL.Path, v.r.URL.Query())
	}
	if data.Refreshing {
		v.w.Header().Set("Refresh", strconv.Itoa(refreshSeconds))
	}
	var out markup
	data.write(&out)
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	v.w.WriteHeader(status)
	if v.r.Method != http.MethodHead {
		_, _ = v.w.Write(out.Bytes()) // an error means that the browser closed the connection
	}
	return nil
}

// failure is the data of an error page.
type failure struct{ Detail string }

// fail answers with an error page.
func (c *Console) fail(v *visit, status int, title, detail string) error {
	return c.render(v, status, "failure", title, &failure{Detail: detail})
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
