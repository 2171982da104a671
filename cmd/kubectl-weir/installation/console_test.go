// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
)

func TestConsoleIsNotServed(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"code":"NotFound","detail":"This path does not exist."}`)
	}))
	defer server.Close()
	api := &connect.Client{HTTP: server.Client(), URL: server.URL, Hint: "port 8083"}
	_, err := consoleURL(t.Context(), api)
	g.Expect(err).To(MatchError("port 8083: serves no console; set the chart value console.enabled, or the flag --console"))
}

func TestConsoleReportsAnEndedForward(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.NotFoundHandler())
	api := &connect.Client{HTTP: server.Client(), URL: server.URL, Hint: "port 8083"}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- waitForEnd(ctx, api, time.Millisecond) }()
	g.Consistently(ended, "50ms").ShouldNot(Receive())
	cancel()
	g.Expect(<-ended).To(Succeed(), "Ctrl-C")
	server.Close()
	g.Expect(waitForEnd(t.Context(), api, time.Millisecond)).To(MatchError(HavePrefix("port 8083 does not answer any more; run the command again: ")))
}
