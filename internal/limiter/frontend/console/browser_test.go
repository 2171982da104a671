// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"

	. "github.com/onsi/gomega"
)

// browser is a browser without script.
type browser struct {
	*site

	client *http.Client
	page   string // the last page
	header http.Header
	status int
}

func (s *site) browser() *browser {
	jar, err := cookiejar.New(nil)
	NewWithT(s.t).Expect(err).NotTo(HaveOccurred())
	return &browser{site: s, client: &http.Client{Jar: jar}}
}

// logIn logs in as kubectl weir console does.
func (s *site) logIn(token string) *browser {
	s.t.Helper()
	b := s.browser()
	b.open(s.code(token))
	NewWithT(s.t).Expect(b.status).To(Equal(http.StatusOK), b.page)
	return b
}

func (b *browser) open(path string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.url+path, http.NoBody)
	NewWithT(b.t).Expect(err).NotTo(HaveOccurred())
	b.do(r)
}

// submit posts a form. Without a field csrf it takes the one of the last page.
func (b *browser) submit(path string, fields url.Values) {
	b.t.Helper()
	if !fields.Has("csrf") {
		fields.Set("csrf", b.csrf())
	}
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+path, strings.NewReader(fields.Encode()))
	NewWithT(b.t).Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	b.do(r)
}

func (b *browser) do(r *http.Request) {
	b.t.Helper()
	g := NewWithT(b.t)
	response, err := b.client.Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	b.page, b.status, b.header = string(text), response.StatusCode, response.Header
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

func (b *browser) csrf() string {
	if found := csrfField.FindStringSubmatch(b.page); found != nil {
		return found[1]
	}
	return ""
}
