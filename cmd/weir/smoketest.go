// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/duration"
	"github.com/weir-dev/weir/internal/reject"
)

const (
	// smokeTestInterval is the time between two checks, smokeTestCheck the timeout of one.
	smokeTestInterval = 100 * time.Millisecond
	smokeTestCheck    = 5 * time.Second
	// maxSmokeTestAnswer bounds how much of an answer is read.
	maxSmokeTestAnswer = 64 << 10
)

// smokeTest sends checks of one policy to a running Weir.
type smokeTest struct {
	url        string
	policy     string
	timeout    time.Duration
	caFile     string
	serverName string
	certFile   string
	keyFile    string
}

func newSmokeTestCommand() *cobra.Command {
	s := &smokeTest{}
	cmd := &cobra.Command{
		Use:   "smoke-test --url URL --policy NAMESPACE/NAME",
		Short: "Send checks of a policy until one is denied",
		Long: `Send checks of a policy until one is denied.

The checks have a new key, so that the first is allowed. If none is denied within
--timeout, the error has the last answer. The Helm chart runs this as helm test.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&s.url, "url", "", "base URL of the HTTP API, such as http://weir.weir-system.svc:8080 (required)")
	flags.StringVar(&s.policy, "policy", "", "policy to check, as NAMESPACE/NAME (required)")
	duration.Var(flags, &s.timeout, "timeout", time.Minute, "time until a check must be denied")
	flags.StringVar(&s.caFile, "ca-file", "", "PEM file with the CAs that verify the server, or with its certificate (default: system roots)")
	flags.StringVar(&s.serverName, "server-name", "", "name in the certificate of the server (default: the host of --url)")
	flags.StringVar(&s.certFile, "cert-file", "", "PEM file with the client certificate (default: none)")
	flags.StringVar(&s.keyFile, "key-file", "", "PEM file with the key of the client certificate")
	return cmd
}

// validate rejects missing and invalid flags.
func (s *smokeTest) validate() error {
	base, err := url.Parse(s.url)
	namespace, name, ok := strings.Cut(s.policy, "/")
	return errors.Join(
		reject.If(err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https"),
			"--url %q: must be the base URL of the HTTP API, such as http://weir.weir-system.svc:8080", s.url),
		reject.If(!ok || namespace == "" || name == "" || strings.Contains(name, "/"), "--policy %q: must be NAMESPACE/NAME", s.policy),
		reject.If(s.timeout <= 0, "--timeout %v: must be more than 0", s.timeout),
		reject.If((s.certFile == "") != (s.keyFile == ""), "--cert-file, --key-file: set both or neither"))
}

// run sends checks until one is denied, and returns the last answer as an error if that takes
// longer than the timeout.
func (s *smokeTest) run(ctx context.Context, out io.Writer) error {
	if err := s.validate(); err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	interval := time.NewTicker(smokeTestInterval)
	defer interval.Stop()
	key, allowed, problem := "smoke-test-"+rand.Text(), 0, errors.New("no answer")
	for {
		got, err := s.check(ctx, client, key)
		switch {
		case err != nil && ctx.Err() == nil:
			problem = fmt.Errorf("no answer; a NetworkPolicy may block this client: %w", err)
		case got.allowed():
			allowed++
			problem = fmt.Errorf("%d checks were allowed and none denied", allowed)
		case got.denied() && allowed > 0:
			_, err = fmt.Fprintf(out, "%s allowed %d checks and denied the next one.\n", s.policy, allowed)
			return err
		case err == nil:
			problem = got.problem(s.policy)
		}
		select {
		case <-interval.C:
		case <-ctx.Done():
			return fmt.Errorf("no check of %s was denied within %v: %w", s.policy, s.timeout, problem)
		}
	}
}

// smokeAnswer is an answer of /v1/check.
type smokeAnswer struct {
	status   int
	degraded string // header Weir-Degraded
	body     string
}

// allowed and denied report a decision from the counters in Redis.
func (a smokeAnswer) allowed() bool { return a.status == http.StatusOK && a.degraded == "" }

func (a smokeAnswer) denied() bool { return a.status == http.StatusTooManyRequests && a.degraded == "" }

// problem describes an answer that proves nothing.
func (a smokeAnswer) problem(policy string) error {
	switch {
	case a.degraded != "":
		return fmt.Errorf("Redis does not answer Weir, which decided by failureMode (Weir-Degraded: %s)", a.degraded) //nolint:staticcheck // a name
	case a.status == http.StatusNotFound:
		return fmt.Errorf("the policy is not in force; read its conditions and the log of the leader: %s", a.body)
	case a.status == http.StatusTooManyRequests:
		return fmt.Errorf("the first check of a new key was denied; %s may allow none: %s", policy, a.body)
	default:
		return fmt.Errorf("status %d: %s", a.status, a.body)
	}
}

func (s *smokeTest) check(ctx context.Context, client *http.Client, key string) (smokeAnswer, error) {
	body, err := json.Marshal(map[string]any{"policies": []string{s.policy}, "key": key})
	if err != nil {
		return smokeAnswer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/check", bytes.NewReader(body))
	if err != nil {
		return smokeAnswer{}, fmt.Errorf("--url: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return smokeAnswer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxSmokeTestAnswer))
	return smokeAnswer{
		status: response.StatusCode, degraded: response.Header.Get("Weir-Degraded"), body: string(bytes.TrimSpace(text)),
	}, err
}

// client returns a client with the certificates of the flags.
func (s *smokeTest) client() (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.serverName}
	if s.caFile != "" {
		pem, err := os.ReadFile(s.caFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca-file %s: has no certificate", s.caFile)
		}
	}
	if s.certFile != "" {
		pair, err := tls.LoadX509KeyPair(s.certFile, s.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--cert-file, --key-file: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &http.Client{Timeout: smokeTestCheck, Transport: &http.Transport{TLSClientConfig: config}}, nil
}
