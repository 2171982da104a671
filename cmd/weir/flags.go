// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/duration"
	"github.com/weir-dev/weir/internal/limiter/engine/series"
	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/internal/limiter/store/slicecache"
	"github.com/weir-dev/weir/internal/reject"
	"github.com/weir-dev/weir/internal/tlsfiles"
	"github.com/weir-dev/weir/internal/tracing"
)

// decisionFlags are the flags of every command that makes decisions.
type decisionFlags struct {
	// options are set by the flags, and completed by complete. Set ConsoleGuests before add.
	options         endpoint.Options
	redisURL        string
	redisURLFile    string
	redisFiles      redisclient.Files
	redisCommand    string
	operatorDefault func() bool // whether the address of the operator port is the default
	trustedProxies  []string
	adminTokenFile  string
	consoleDefault  func() bool // whether Console is the default
	logLevel        string
	tls             tlsFlags
}

// redisSchemes lists the schemes of --redis-url for its help.
const redisSchemes = "redis://, redis-cluster:// or redis-sentinel://host:26379/<master>, or with TLS rediss://, rediss-cluster:// or rediss-sentinel://"

func (f *decisionFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.redisURLFile, "redis-url-file", "", "file with the URL of --redis-url, with or without user and password; read at start")
	flags.StringVar(&f.redisFiles.Username, "redis-username-file", "",
		"file with the Redis user, read for each connection (default: the user of the URL, or Redis's default user)")
	flags.StringVar(&f.redisFiles.Password, "redis-password-file", "", "file with the Redis password, read for each connection (default: the password of the URL)")
	flags.StringVar(&f.redisCommand, "redis-credentials-command", "",
		`program, and its arguments separated by spaces, that prints the credentials of Redis as JSON: {"user", "password", "expiry"}. It runs again before they expire (default: none)`)
	flags.StringVar(&f.redisFiles.SentinelUsername, "redis-sentinel-username-file", "",
		"file with the user of the sentinels, read for each connection (default: their default user)")
	flags.StringVar(&f.redisFiles.SentinelPassword, "redis-sentinel-password-file", "",
		"file with the password of the sentinels, read for each connection (default: none)")
	flags.StringVar(&f.redisFiles.CA, "redis-ca-file", "",
		"PEM file with the CAs that verify Redis (default: system roots)")
	flags.StringVar(&f.redisFiles.Cert, "redis-cert-file", "", "PEM file with the client certificate for Redis (default: none)")
	flags.StringVar(&f.redisFiles.Key, "redis-key-file", "", "PEM file with the key of the client certificate for Redis")
	flags.StringVar(&f.redisFiles.ServerName, "redis-server-name", "",
		"name in the certificates of all Redis nodes and sentinels (default: the host of each connection, in a Cluster the host of the URL)")
	flags.StringVar(&f.options.RedisPrefix, "redis-prefix", "weir:", "prefix of every key in Redis")
	flags.StringVar(&f.options.HTTPAddress, "http-address", ":8080", "address of the HTTP API; empty serves none")
	flags.StringVar(&f.options.GRPCAddress, "grpc-address", ":8081", "address of the gRPC API; empty serves none")
	f.operatorDefault = func() bool { return !flags.Changed("operator-address") }
	flags.StringVar(&f.options.OperatorAddress, "operator-address", "127.0.0.1:8083",
		"address of the operator port: the calls on the state of keys, for kubectl weir; beyond loopback only with --tls-cert-file; empty serves none")
	flags.StringVar(&f.options.MetricsAddress, "metrics-address", ":8082", "address of the metrics; empty serves none")
	duration.Var(flags, &f.options.StoreTimeout, "store-timeout", 50*time.Millisecond,
		"time that a decision waits for Redis; then the failureMode of each policy decides")
	flags.Int64Var(&f.options.Floods.PerMinute, "new-keys-per-minute", 100_000,
		"keys that each policy may begin in a minute in this process; further ones share a budget; 0 is unlimited")
	flags.Int64Var(&f.options.Floods.PerWindow, "new-keys-per-window", 2_000_000,
		"keys started by each policy in this process whose state may exist at the same time; further ones share a budget; 0 is unlimited")
	flags.IntVar(&f.options.LocalKeys, "local-keys", 1_000_000,
		"keys of all policies that may have counters in memory: with failureMode Local, or without Redis; further keys of a policy share one budget")
	flags.IntVar(&f.options.SliceKeys, "slices", slicecache.DefaultKeys,
		"maximum number of keys with a slice in this process, hot keys first; 0 takes no slices")
	duration.Var(flags, &f.options.DrainDelay, "drain-delay", 0,
		"how long a stopping process still accepts requests while /readyz fails")
	flags.StringSliceVar(&f.trustedProxies, "trusted-proxies",
		[]string{
			"127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7",
		}, "networks of proxies whose forwarding headers are trusted")
	flags.StringVar(&f.options.Frontend.PrincipalHeader, "principal-header", "",
		"header in which trusted proxies pass the authenticated user (default: none)")
	flags.BoolVar(&f.options.Frontend.TrustRouteExtensions, "trust-route-extensions", false,
		"let the context extension weir.route of ext_authz name the route; every configuration of a proxy that reaches Weir can then name any route")
	flags.BoolVar(&f.options.Frontend.LegacyHeaders, "legacy-headers", false, "also set the response headers X-RateLimit-Limit, -Remaining and -Reset")
	flags.StringVar((*string)(&f.options.MetricsDetail), "metrics-detail", string(series.DetailPolicy),
		"detail of the metrics of decisions: Policy (labels policy and limit) or Namespace (both are empty)")
	flags.StringVar(&f.adminTokenFile, "admin-token-file", "",
		"file with the token that authorizes reading and changing the state of keys (default: weir manager asks the API server, weir standalone rejects these calls)")
	flags.BoolVar(&f.options.Observe, "observe", true, "collect which keys are denied and blocked and how much each policy decides, for kubectl weir blocks and top")
	f.consoleDefault = func() bool { return !flags.Changed("console") }
	flags.BoolVar(&f.options.Console, "console", f.options.ConsoleGuests, "serve the web console on the operator port, at /console")
	flags.StringVar(&f.logLevel, "log-level", "info", "lowest level to log: debug, info, warn or error")
	f.tls.add(cmd)
}

// readRedisURL replaces --redis-url by the content of --redis-url-file. Its errors do not
// contain the URL, which may have a password.
func (f *decisionFlags) readRedisURL() error {
	if f.redisURLFile == "" {
		return nil
	}
	if f.redisURL != "" {
		return errors.New("--redis-url, --redis-url-file: choose one")
	}
	text, err := os.ReadFile(f.redisURLFile)
	if err != nil {
		return fmt.Errorf("--redis-url-file: %w", err)
	}
	f.redisURL = strings.TrimSpace(string(text))
	return reject.If(f.redisURL == "", "--redis-url-file %s: is empty", f.redisURLFile)
}

// validate rejects invalid values and flags that would be ignored.
func (f *decisionFlags) validate() error {
	o := &f.options
	_, networksErr := f.trustedNetworks()
	_, loggerErr := f.logger()
	return errors.Join(
		reject.If(o.StoreTimeout <= 0, "--store-timeout %v: must be more than 0", o.StoreTimeout),
		reject.If(o.Floods.PerMinute < 0, "--new-keys-per-minute %d: must not be negative", o.Floods.PerMinute),
		reject.If(o.Floods.PerWindow < 0, "--new-keys-per-window %d: must not be negative", o.Floods.PerWindow),
		reject.If(o.DrainDelay < 0, "--drain-delay %v: must not be negative", o.DrainDelay),
		reject.If(strings.ContainsAny(o.RedisPrefix, "{}"), "--redis-prefix %q: must not contain braces", o.RedisPrefix),
		networksErr,
		reject.If(strings.ContainsFunc(o.Frontend.PrincipalHeader, isInvalidHeaderChar),
			"--principal-header %q: must be a header name", o.Frontend.PrincipalHeader),
		reject.If(o.MetricsDetail != series.DetailPolicy && o.MetricsDetail != series.DetailNamespace,
			"--metrics-detail %q: must be Policy or Namespace", o.MetricsDetail),
		validateAddress("--http-address", o.HTTPAddress, ":8080"),
		validateAddress("--grpc-address", o.GRPCAddress, ":8081"),
		validateAddress("--metrics-address", o.MetricsAddress, ":8082"),
		f.validateOperatorAddress(), f.tls.validate(), f.validateFiles(),
		reject.If(o.LocalKeys < 1, "--local-keys %d: must be at least 1", o.LocalKeys),
		reject.If(o.SliceKeys < 0, "--slices %d: must not be negative", o.SliceKeys),
		loggerErr)
}

// validateOperatorAddress rejects a port in plain text that other machines can reach: it receives
// tokens.
func (f *decisionFlags) validateOperatorAddress() error {
	if f.options.OperatorAddress == "" && f.options.Console && !f.consoleDefault() {
		return errors.New("--console: needs --operator-address")
	}
	if err := validateAddress("--operator-address", f.options.OperatorAddress, "127.0.0.1:8083"); err != nil || f.options.OperatorAddress == "" {
		return err
	}
	if host, _, err := net.SplitHostPort(f.options.OperatorAddress); err == nil && !httpapi.IsLoopback(host) && f.tls.CertFile == "" {
		return fmt.Errorf("--operator-address %q: beyond loopback it needs --tls-cert-file and --tls-key-file", f.options.OperatorAddress)
	}
	return nil
}

// validateFiles rejects files that cannot be read.
func (f *decisionFlags) validateFiles() error {
	r := f.redisFiles
	return errors.Join(
		readable("--redis-username-file", r.Username), readable("--redis-password-file", r.Password),
		readable("--redis-sentinel-username-file", r.SentinelUsername), readable("--redis-sentinel-password-file", r.SentinelPassword),
		readable("--redis-ca-file", r.CA), readable("--redis-cert-file", r.Cert), readable("--redis-key-file", r.Key),
		readable("--tls-cert-file", f.tls.CertFile), readable("--tls-key-file", f.tls.KeyFile),
		readable("--client-ca-file", f.tls.ClientCAFile))
}

// trustedNetworks parses --trusted-proxies.
func (f *decisionFlags) trustedNetworks() ([]netip.Prefix, error) {
	networks := make([]netip.Prefix, 0, len(f.trustedProxies))
	for _, text := range f.trustedProxies {
		network, err := parseNetwork("--trusted-proxies", text)
		if err != nil {
			return nil, err
		}
		networks = append(networks, network)
	}
	return networks, nil
}

// isInvalidHeaderChar reports whether header names must not contain the character (RFC 9110
// section 5.6.2).
func isInvalidHeaderChar(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
}

// complete sets the options that the flags do not set themselves, except Redis. stop exports the
// remaining spans; call it at the end of the process.
func (f *decisionFlags) complete(ctx context.Context) (stop func(), err error) {
	o := &f.options
	if o.Logger, err = f.logger(); err != nil {
		return nil, err
	}
	tuneMemory(o.Logger)
	if o.Frontend.TrustedProxies, err = f.trustedNetworks(); err != nil {
		return nil, err
	}
	if o.TLS, err = f.tls.load(o.Logger); err != nil {
		return nil, err
	}
	if o.Authorizer, err = f.authorizer(); err != nil {
		return nil, err
	}
	spans, err := tracing.FromEnvironment(ctx, version, o.Logger)
	if err != nil {
		return nil, err
	}
	if spans != nil {
		o.Tracer, o.Propagator = spans.Provider, spans.Propagator
	}
	o.Registry = prometheus.NewRegistry()
	o.Registry.MustRegister(newBuildInfo())
	if f.redisCommand != "" {
		if f.redisFiles.Command, err = redisclient.NewCredentialsCommand(ctx, f.redisCommand, o.Logger, o.Registry); err != nil {
			return nil, fmt.Errorf("--redis-credentials-command: %w", err)
		}
	}
	o.Expiry = tlsfiles.NewExpiry(o.Registry)
	if o.TLS != nil {
		o.Expiry.Add("server", o.TLS.Expires)
	}
	o.Version, o.OperatorOptional = version, f.operatorDefault()
	return func() { _ = spans.Close(ctx) }, nil // its errors are logged
}

// authorizer returns the authorizer of --admin-token-file, or nil.
func (f *decisionFlags) authorizer() (httpapi.Authorizer, error) {
	if f.adminTokenFile == "" {
		return nil, nil //nolint:nilnil // no file, no authorizer
	}
	authorizer, err := httpapi.NewTokenFile(f.adminTokenFile)
	return authorizer, reject.Wrap("--admin-token-file", err)
}

// logger returns a logger that writes JSON to standard error.
func (f *decisionFlags) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level %q: must be debug, info, warn or error", f.logLevel)
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})), nil
}
