// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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

func TestConsoleIsNotServed(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"code":"NotFound","detail":"This path does not exist."}`)
	}))
	defer server.Close()
	api := &client{http: server.Client(), url: server.URL, hint: "port 8083"}
	_, err := api.consoleURL(t.Context())
	g.Expect(err).To(MatchError("port 8083: serves no console; set the chart value console.enabled, or the flag --console"))
}

func TestConsoleReportsAnEndedForward(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.NotFoundHandler())
	api := &client{http: server.Client(), url: server.URL, hint: "port 8083"}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- api.waitForEnd(ctx, time.Millisecond) }()
	g.Consistently(ended, "50ms").ShouldNot(Receive())
	cancel()
	g.Expect(<-ended).To(Succeed(), "Ctrl-C")
	server.Close()
	g.Expect(api.waitForEnd(t.Context(), time.Millisecond)).To(MatchError(HavePrefix("port 8083 does not answer any more; run the command again: ")))
}
