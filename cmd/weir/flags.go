// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/endpoint"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/tracing"
)

// decisionFlags are the flags of everything that decides.
type decisionFlags struct {
	redisURL       string
	redisFiles     redisclient.Files
	redisPrefix    string
	httpAddress    string
	grpcAddress    string
	metricsAddress string
	storeTimeout   time.Duration
	drainDelay     time.Duration
	trustedProxies []string
	principal      string
	legacyHeaders  bool
	logLevel       string
	tls            tlsFlags
}

func (f *decisionFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.redisFiles.Username, "redis-username-file", "",
		"the file with the user for Redis, read for each connection; empty is that of the URL, or the default one")
	flags.StringVar(&f.redisFiles.Password, "redis-password-file", "", "the file with its password")
	flags.StringVar(&f.redisFiles.CA, "redis-ca-file", "",
		"the authorities that Redis has its certificate of, in PEM; empty is those of the system")
	flags.StringVar(&f.redisFiles.Cert, "redis-cert-file", "", "the certificate to show Redis, in PEM; empty is none")
	flags.StringVar(&f.redisFiles.Key, "redis-key-file", "", "its key")
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
		}, "networks of proxies, whose word is believed on whom they forward for")
	flags.StringVar(&f.principal, "principal-header", "",
		"the header in which trusted proxies name the caller they have authenticated; empty is none")
	flags.BoolVar(&f.legacyHeaders, "legacy-headers", false, "answer with X-RateLimit-Limit, -Remaining and -Reset as well")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	f.tls.add(cmd)
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
	if _, err := f.trustedNetworks(); err != nil {
		errs = append(errs, err)
	}
	if strings.ContainsFunc(f.principal, isNoHeaderChar) {
		errs = append(errs, fmt.Errorf("--principal-header %q: must be the name of a header", f.principal))
	}
	errs = append(errs, f.tls.validate())
	return errors.Join(errs...)
}

// trustedNetworks reads --trusted-proxies.
func (f *decisionFlags) trustedNetworks() ([]netip.Prefix, error) {
	networks := make([]netip.Prefix, 0, len(f.trustedProxies))
	for _, text := range f.trustedProxies {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--trusted-proxies: %w", err)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

// isNoHeaderChar reports whether the name of no header holds the character (RFC
// 9110 section 5.6.2).
func isNoHeaderChar(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
}

// endpointOptions are the options of the endpoint, but for its Redis. stop sends the
// spans that are left, at the end of the process.
func (f *decisionFlags) endpointOptions(ctx context.Context) (options endpoint.Options, stop func(), err error) {
	logger, err := f.logger()
	if err != nil {
		return options, nil, err
	}
	networks, err := f.trustedNetworks()
	if err != nil {
		return options, nil, err
	}
	certificates, err := f.tls.load(logger)
	if err != nil {
		return options, nil, err
	}
	spans, err := tracing.FromEnvironment(ctx, version, logger)
	if err != nil {
		return options, nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newBuildInfo())
	options = endpoint.Options{
		RedisPrefix:    f.redisPrefix,
		HTTPAddress:    f.httpAddress,
		GRPCAddress:    f.grpcAddress,
		MetricsAddress: f.metricsAddress,
		TLS:            certificates,
		Door: limiter.DoorOptions{
			TrustedProxies:  networks,
			PrincipalHeader: f.principal,
			LegacyHeaders:   f.legacyHeaders,
		},
		StoreTimeout: f.storeTimeout,
		LameDuck:     f.drainDelay,
		Logger:       logger,
		Registry:     registry,
	}
	if spans != nil {
		options.Tracer, options.Propagator = spans.Provider, spans.Propagator
	}
	return options, func() { _ = spans.Close(ctx) }, nil // an error has been logged
}

// logger returns a logger that writes JSON to standard error.
func (f *decisionFlags) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})), nil
}
