// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestConsoleLinkWorksOnce(t *testing.T) {
	g, s := NewWithT(t), start(t)
	link := strings.TrimSpace(s.succeed("console"))
	g.Expect(link).To(MatchRegexp(`^http://127\.0\.0\.1:\d+/console/login\?code=[\w-]{43}$`))
	visit := func() (status int, page string) {
		jar, err := cookiejar.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := (&http.Client{Jar: jar}).Get(link)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		return response.StatusCode, string(text)
	}
	status, page := visit()
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(page).To(ContainSubstring("<h1>Overview</h1>"))
	status, _ = visit()
	g.Expect(status).To(Equal(http.StatusUnauthorized))
}
