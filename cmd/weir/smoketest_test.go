// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
)

// runSmokeTest runs weir smoke-test.
func runSmokeTest(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newSmokeTestCommand()
	cmd.SetOut(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestSmokeTestPassesOnceACheckIsDenied(t *testing.T) {
	g := NewWithT(t)
	p := startStandalone(t, "--policies", "../../config/samples")
	for range 2 { // each run has a key of its own
		out, err := runSmokeTest(t, "--url", "http://"+p.http, "--policy", "shop/burst")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(out).To(MatchRegexp(`^shop/burst allowed \d+ checks and denied the next one`))
	}
	_, err := runSmokeTest(t, "--url", "http://"+p.http, "--policy", "shop/nonesuch", "--timeout", "1s")
	g.Expect(err).To(MatchError(And(ContainSubstring("the policy is not in force"), ContainSubstring("shop/nonesuch"))))
	_, err = runSmokeTest(t, "--url", "http://"+testenv.FreeAddr(t), "--policy", "shop/burst", "--timeout", "1s")
	g.Expect(err).To(MatchError(And(ContainSubstring("a NetworkPolicy may block this client"), ContainSubstring("refused"))))
}

// Only a check that Weir denied after it allowed others, from its counters, ends the test.
func TestSmokeTestReportsTheLastAnswer(t *testing.T) {
	type given struct {
		status   int
		degraded string
	}
	for name, tc := range map[string]struct {
		answers []given // the last one repeats
		want    string  // empty: it passes
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
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				got := tc.answers[min(int(asked.Add(1)), len(tc.answers))-1]
				if got.degraded != "" {
					w.Header().Set("Weir-Degraded", got.degraded)
				}
				http.Error(w, "the body", got.status)
			}))
			defer server.Close()
			_, err := runSmokeTest(t, "--url", server.URL, "--policy", "shop/login", "--timeout", "1s")
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(And(ContainSubstring("no check of shop/login was denied within 1s"), ContainSubstring(tc.want))))
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
	args := []string{"--url", server.URL, "--policy", "shop/login", "--timeout", "1s"}
	_, err := runSmokeTest(t, args...)
	g.Expect(err).To(MatchError(ContainSubstring("unknown authority")))
	_, err = runSmokeTest(t, append(args, "--ca-file", ca, "--server-name", "elsewhere.example")...)
	g.Expect(err).To(MatchError(ContainSubstring("not elsewhere.example")))
	_, err = runSmokeTest(t, append(args, "--ca-file", ca, "--server-name", "example.com")...)
	g.Expect(err).NotTo(HaveOccurred())

	for flag, want := range map[string]string{"--ca-file": "has no certificate", "--cert-file": "--cert-file, --key-file:"} {
		_, err = runSmokeTest(t, append(args, flag, os.DevNull)...)
		g.Expect(err).To(MatchError(ContainSubstring(want)))
	}
}
