// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// runSmokeTest runs weir smoke-test.
func runSmokeTest(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := newSmokeTestCommand() //nolint:contextcheck // ExecuteContext passes it
	cmd.SetOut(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	return out.String(), err
}

// Only a check that Weir denied after it allowed others, from its counters, ends the test.
func TestSmokeTestReportsTheLastAnswer(t *testing.T) {
	type given struct {
		status   int
		degraded string
	}
	for name, tc := range map[string]struct {
		answers []given
		want    string // empty: it passes
	}{
		"denied":                 {[]given{{200, ""}, {429, ""}}, ""},
		"not at once":            {[]given{{404, ""}, {200, "open"}, {200, ""}, {429, "local"}, {200, ""}, {429, ""}}, ""},
		"never":                  {[]given{{200, ""}}, "checks were allowed and none denied"},
		"the first check denied": {[]given{{429, ""}}, "the first check of a new key was denied"},
		"without Redis":          {[]given{{200, "open"}}, "Redis does not answer Weir, which decided by failureMode (Weir-Degraded: open)"},
		"counted in memory":      {[]given{{200, ""}, {429, "local"}}, "(Weir-Degraded: local)"},
		"an error":               {[]given{{503, ""}}, "status 503: the body"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if int(asked.Add(1)) > len(tc.answers) {
					cancel() // it has judged all answers
				}
				got := tc.answers[min(int(asked.Load()), len(tc.answers))-1]
				if got.degraded != "" {
					w.Header().Set("Weir-Degraded", got.degraded)
				}
				http.Error(w, "the body", got.status)
			}))
			defer server.Close()
			_, err := runSmokeTest(ctx, "--url", server.URL, "--policy", "shop/login", "--timeout", "1m")
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(And(ContainSubstring("no check of shop/login was denied within 1m0s"), ContainSubstring(tc.want))))
			}
		})
	}
}

// The certificate of the server itself suffices as CA; its name may differ from the host.
func TestSmokeTestOverTLS(t *testing.T) {
	g := NewWithT(t)
	allowed := atomic.Bool{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if allowed.Swap(true) {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "tls.crt")
	g.Expect(os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600)).To(Succeed())
	// A run is repeated where the machine is so busy that a second passes before its first check.
	run := func(args ...string) func() error {
		return func() error {
			_, err := runSmokeTest(t.Context(), append([]string{"--url", server.URL, "--policy", "shop/login", "--timeout", "1s"}, args...)...)
			return err
		}
	}
	g.Eventually(run(), "60s").Should(MatchError(ContainSubstring("unknown authority")))
	g.Eventually(run("--ca-file", ca, "--server-name", "elsewhere.example"), "60s").Should(MatchError(ContainSubstring("not elsewhere.example")))
	g.Expect(run("--ca-file", ca, "--server-name", "example.com", "--timeout", "1m")()).To(Succeed())

	for flag, want := range map[string]string{"--ca-file": "has no certificate", "--cert-file": "--cert-file, --key-file:"} {
		g.Expect(run(flag, os.DevNull)()).To(MatchError(ContainSubstring(want)))
	}
}

// The error where nothing listens names the likely cause.
func TestSmokeTestReportsARefusedConnection(t *testing.T) {
	address := testenv.FreeAddr(t)
	NewWithT(t).Eventually(func() error { // again where the machine is so busy that a second passes before the first check
		_, err := runSmokeTest(t.Context(), "--url", "http://"+address, "--policy", "shop/burst", "--timeout", "1s")
		return err
	}, "60s").Should(MatchError(And(ContainSubstring("a NetworkPolicy may block this client"), ContainSubstring("refused"))))
}
