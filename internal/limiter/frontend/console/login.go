// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
)

// NewCode implements httpapi.Console.
func (c *Console) NewCode(token, claimedUser string) (path string, valid time.Duration) {
	return pathLogin + "?code=" + url.QueryEscape(c.sessions.newCode(token, claimedUser)), codeLife
}

// loginPage is the form that takes a token.
type loginPage struct {
	Problem string
	// Code is the code of a link that the reader must confirm; empty without one.
	Code string
}

// showLogin exchanges the code in the URL for a session. The redirect removes the code from the
// address and the history of the browser. Without a code it shows the form. A link with which another person could put their
// session in place of the reader's needs a confirmation.
func (c *Console) showLogin(v *visit) error {
	code := v.r.URL.Query().Get("code")
	switch {
	case code == "" || v.r.Method != http.MethodGet: // a HEAD must not use the code
		return c.renderLogin(v, http.StatusOK, "")
	case v.hasSession() || isFromOtherSite(v.r):
		return c.render(v, http.StatusOK, "login", "Log in", &loginPage{Code: code})
	}
	return c.exchange(v, code)
}

// isFromOtherSite reports whether a page of another site leads here. Browsers then send no cookie of a session.
func isFromOtherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "cross-site" || site == "same-site"
}

func (v *visit) hasSession() bool { return v.session != nil && !v.session.guest }

// exchange begins the session of the code.
func (c *Console) exchange(v *visit, code string) error {
	s := c.sessions.exchange(code)
	if s == nil {
		return c.renderLogin(v, http.StatusUnauthorized, "This link was used already, or is older than 30 seconds. Run kubectl weir console again for a new one.")
	}
	return c.begin(v, s)
}

// logIn begins a session with the token of the form, or with the code of a confirmed link.
func (c *Console) logIn(v *visit) error {
	if code := v.r.PostForm.Get("code"); code != "" {
		return c.exchange(v, code)
	}
	token := strings.TrimSpace(v.r.PostForm.Get("token"))
	if token == "" || strings.ContainsFunc(token, isNotTokenChar) {
		return c.renderLogin(v, http.StatusUnauthorized, "Enter the token: one word.")
	}
	_, err := c.authorizer.Authorize(v.ctx(), token, httpapi.VerbList, "", "")
	switch {
	case err == nil || errors.Is(err, httpapi.ErrForbidden):
		return c.begin(v, c.sessions.start(token))
	case errors.Is(err, httpapi.ErrUnauthenticated):
		return c.renderLogin(v, http.StatusUnauthorized, "This token is not valid.")
	}
	return c.renderLogin(v, http.StatusServiceUnavailable, "Tokens cannot be verified at the moment. Try again in a few seconds.")
}

func isNotTokenChar(r rune) bool { return r <= ' ' || r >= 0x7f }

// begin gives the session to the browser. It ends the one that the browser had.
func (c *Console) begin(v *visit, s *session) error {
	if v.hasSession() {
		c.sessions.end(v.session.id)
	}
	c.setCookie(v, s)
	http.Redirect(v.w, v.r, pathOverview, http.StatusSeeOther)
	return nil
}

// logOut ends the session.
func (c *Console) logOut(v *visit) error {
	c.sessions.end(v.session.id)
	c.dropCookie(v)
	http.Redirect(v.w, v.r, pathLogin, http.StatusSeeOther)
	return nil
}

// askForLogin answers a request without a session.
func (c *Console) askForLogin(v *visit) error {
	problem := ""
	if _, err := v.r.Cookie(c.cookie); err == nil {
		problem = "Your session has ended. It lasts ten minutes."
	}
	return c.renderLogin(v, http.StatusUnauthorized, problem)
}

func (c *Console) renderLogin(v *visit, status int, problem string) error {
	return c.render(v, status, "login", "Log in", &loginPage{Problem: problem})
}
