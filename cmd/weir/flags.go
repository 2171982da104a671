// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/limiter/endpoint"
)

// decisionFlags are the flags of everything that decides.
type decisionFlags struct {
	redisURL       string
	redisPrefix    string
	httpAddress    string
	grpcAddress    string
	metricsAddress string
	storeTimeout   time.Duration
	drainDelay     time.Duration
	trustedProxies []string
	logLevel       string
	tls            struct{ certFile, keyFile, clientCAFile string }
	clientNames    []string
}

func (f *decisionFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.redisPrefix, "redis-prefix", "weir:", "what the name of every key in Redis starts with")
	flags.StringVar(&f.httpAddress, "http-address", ":8080", "where checks are answered over HTTP")
	flags.StringVar(&f.grpcAddress, "grpc-address", ":8081", "where checks are answered over gRPC")
	flags.StringVar(&f.metricsAddress, "metrics-address", ":8082", "where metrics are served; empty is nowhere")
	flags.DurationVar(&f.storeTimeout, "store-timeout", 50*time.Millisecond,
		"the longest a decision waits for Redis; then the failureMode of the policies decides")
	flags.DurationVar(&f.drainDelay, "drain-delay", 0,
		"how long requests are still accepted, with /readyz failing, after the process was told to end")
	flags.StringSliceVar(&f.trustedProxies, "trusted-proxies",
		[]string{
			"127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7",
		}, "networks whose forwarding headers are believed (no door of this release reads any yet)")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&f.tls.certFile, "tls-cert-file", "", "not supported yet")
	flags.StringVar(&f.tls.keyFile, "tls-key-file", "", "not supported yet")
	flags.StringVar(&f.tls.clientCAFile, "client-ca-file", "", "not supported yet")
	flags.StringSliceVar(&f.clientNames, "allowed-client-names", nil, "not supported yet")
}

// validate refuses values that cannot work and flags that would be ignored.
func (f *decisionFlags) validate() error {
	var errs []error
	if f.storeTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--store-timeout %v: must be more than 0", f.storeTimeout))
	}
	if f.drainDelay < 0 {
		errs = append(errs, fmt.Errorf("--drain-delay %v: must not be negative", f.drainDelay))
	}
	if strings.ContainsAny(f.redisPrefix, "{}") {
		errs = append(errs, fmt.Errorf("--redis-prefix %q: must not hold braces", f.redisPrefix))
	}
	for _, network := range f.trustedProxies {
		if _, err := netip.ParsePrefix(network); err != nil {
			errs = append(errs, fmt.Errorf("--trusted-proxies: %w", err))
		}
	}
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"tls-cert-file", f.tls.certFile != ""},
		{"tls-key-file", f.tls.keyFile != ""},
		{"client-ca-file", f.tls.clientCAFile != ""},
		{"allowed-client-names", len(f.clientNames) > 0},
	} {
		if flag.given {
			errs = append(errs, notSupported(flag.name))
		}
	}
	return errors.Join(errs...)
}

// notSupported refuses a flag of a feature this release does not have:
// ignoring it would promise what does not happen.
func notSupported(flag string) error { return fmt.Errorf("--%s: not supported yet", flag) }

// endpointOptions are the options of the endpoint, but for its Redis.
func (f *decisionFlags) endpointOptions(logger *slog.Logger) endpoint.Options {
	return endpoint.Options{
		RedisPrefix:    f.redisPrefix,
		HTTPAddress:    f.httpAddress,
		GRPCAddress:    f.grpcAddress,
		MetricsAddress: f.metricsAddress,
		StoreTimeout:   f.storeTimeout,
		LameDuck:       f.drainDelay,
		Logger:         logger,
		Registry:       prometheus.NewRegistry(),
	}
}

// logger returns a logger that writes JSON to standard error.
func (f *decisionFlags) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})), nil
}
