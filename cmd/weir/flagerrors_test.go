// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// offAddresses turn all ports off.
var offAddresses = []string{"--http-address", "", "--grpc-address", "", "--operator-address", "", "--metrics-address", ""}

// An error of a flag names the flag, and the allowed values or the form.
func TestFlagErrors(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	bad := filepath.Join(t.TempDir(), "bad.pem")
	NewWithT(t).Expect(os.WriteFile(bad, []byte("x"), 0o600)).To(Succeed())
	standalone := append([]string{"standalone", "--policies", "../../config/samples"}, offAddresses...)
	manager := append([]string{"manager", "--redis-url", "redis://127.0.0.1:1"}, offAddresses...)
	smokeTest := []string{"smoke-test", "--url", "http://127.0.0.1:1", "--policy", "shop/p"}
	for _, tc := range []struct {
		command []string
		flags   []string
		want    string
	}{
		{standalone, []string{"--nosuch"}, "unknown flag: --nosuch; see weir standalone --help"},
		{standalone, []string{"--log-level", "loud"}, `--log-level "loud": must be debug, info, warn or error`},
		{standalone, []string{"--trusted-proxies", "10.0.0.1"}, `--trusted-proxies "10.0.0.1": must be a network in CIDR form, such as 10.0.0.1/32`},
		{standalone, []string{"--trusted-proxies", "fe80::1%eth0"}, `--trusted-proxies "fe80::1%eth0": must be a network in CIDR form, such as fe80::1/128`},
		{standalone, []string{"--trusted-proxies", "lan"}, `--trusted-proxies "lan": must be a network in CIDR form, such as 10.0.0.0/8`},
		{[]string{"standalone"}, nil, "--policies: at least one folder is required"},
		{[]string{"standalone"}, []string{"--policies", "/no/folder"}, "--policies /no/folder: no such file or directory"},
		{[]string{"standalone"}, []string{"--policies", "main.go"}, "--policies main.go: not a directory"},
		{standalone, []string{"--store-timeout", "5"}, `--store-timeout "5": must be a duration, such as 500ms, 10s, 1m or 7d`},
		{standalone, []string{"--observe=maybe"}, `--observe "maybe": must be true or false`},
		{standalone, []string{"--local-keys", "many"}, `--local-keys "many": must be a whole number`},
		{standalone, []string{"--new-keys-per-minute", "1.5"}, `--new-keys-per-minute "1.5": must be a whole number`},
		{standalone, []string{"--http-address", "8080"}, `--http-address "8080": must be host:port, such as :8080, or empty`},
		{standalone, []string{"--grpc-address", "127.0.0.1:99999"}, `--grpc-address "127.0.0.1:99999": must be host:port, such as :8081, or empty`},
		{standalone, []string{"--metrics-address", "localhost"}, `--metrics-address "localhost": must be host:port, such as :8082, or empty`},
		{standalone, []string{"--tls-cert-file", "/no/cert", "--tls-key-file", bad}, "--tls-cert-file: open /no/cert: no such file or directory"},
		{standalone, []string{"--tls-cert-file", bad, "--tls-key-file", "/no/key"}, "--tls-key-file: open /no/key: no such file or directory"},
		{standalone, []string{"--tls-cert-file", bad, "--tls-key-file", bad, "--client-ca-file", "/no/ca"}, "--client-ca-file: open /no/ca: no such file or directory"},
		{
			standalone,
			[]string{"--tls-cert-file", bad, "--tls-key-file", bad},
			"--tls-cert-file, --tls-key-file: " + bad + ", " + bad + ": tls: failed to find any PEM data in certificate input",
		},
		{standalone, []string{"--redis-url", "redis://127.0.0.1:1", "--redis-password-file", "/no/word"}, "--redis-password-file: open /no/word: no such file or directory"},
		{standalone, []string{"--redis-url", "rediss://127.0.0.1:1", "--redis-ca-file", "/no/ca"}, "--redis-ca-file: open /no/ca: no such file or directory"},
		{[]string{"manager"}, nil, "--redis-url: is required, or --redis-url-file"},
		{
			manager, nil, "--kubeconfig: no API server is configured; set --kubeconfig or the variable KUBECONFIG to a kubeconfig file, " +
				"or enforce policies from files with weir standalone",
		},
		{manager, []string{"--kubeconfig", "/no/config"}, "--kubeconfig: stat /no/config: no such file or directory"},
		{manager, []string{"--tenancy", "None"}, `--tenancy "None": must be Namespace or Cluster`},
		{manager, []string{"--lease-namespace", "A B"}, `--lease-namespace "A B": a lowercase RFC 1123 label must consist of`},
		{manager, []string{"--webhook-service", "A B"}, `--webhook-service "A B": a lowercase RFC 1123 subdomain must consist of`},
		{manager, []string{"--webhook-address", "9443"}, `--webhook-address "9443": must be host:port, such as :9443, or empty`},
		{[]string{"smoke-test"}, nil, `--url "": must be the base URL of the HTTP API, such as http://weir.weir-system.svc:8080`},
		{[]string{"smoke-test"}, nil, `--policy "": must be NAMESPACE/NAME`},
		{smokeTest, []string{"--url", "127.0.0.1:8080"}, `--url "127.0.0.1:8080": must be the base URL of the HTTP API`},
		{smokeTest, []string{"--policy", "p"}, `--policy "p": must be NAMESPACE/NAME`},
		{smokeTest, []string{"--timeout", "0s"}, "--timeout 0s: must be more than 0"},
		{smokeTest, []string{"--cert-file", bad}, "--cert-file, --key-file: set both or neither"},
		{smokeTest, []string{"--ca-file", "/no/ca"}, "--ca-file: open /no/ca: no such file or directory"},
	} {
		cmd := newCommand()
		cmd.SetArgs(append(append([]string{}, tc.command...), tc.flags...))
		NewWithT(t).Expect(cmd.ExecuteContext(t.Context())).To(MatchError(ContainSubstring(tc.want)))
	}
}

func TestVersionFlag(t *testing.T) {
	g := NewWithT(t)
	var flag, command bytes.Buffer
	for args, out := range map[string]*bytes.Buffer{"--version": &flag, "version": &command} {
		cmd := newCommand()
		cmd.SetArgs([]string{args})
		cmd.SetOut(out)
		g.Expect(cmd.Execute()).To(Succeed())
	}
	g.Expect(flag.String()).To(MatchRegexp(`^weir \S+ \(commit \S+, built \S+\)\n$`))
	g.Expect(flag.String()).To(Equal(command.String()))
}

func TestStandaloneRejectsInvalidFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no policies":      {nil, "--policies: at least one folder is required"},
		"a bad timeout":    {[]string{"--policies", ".", "--store-timeout", "0s"}, "--store-timeout 0s: must be more than 0"},
		"braces":           {[]string{"--policies", ".", "--redis-prefix", "{x}"}, "--redis-prefix"},
		"a bad network":    {[]string{"--policies", ".", "--trusted-proxies", "10.0.0.0/33"}, "--trusted-proxies"},
		"a bad URL":        {[]string{"--policies", "../../config/samples", "--redis-url", "memcached://x"}, "--redis-url: scheme \"memcached\""},
		"no TLS key":       {[]string{"--policies", ".", "--tls-cert-file", "x"}, "--tls-cert-file: needs --tls-key-file"},
		"no certificate":   {[]string{"--policies", ".", "--tls-key-file", "x"}, "--tls-key-file: needs --tls-cert-file"},
		"no TLS at all":    {[]string{"--policies", ".", "--client-ca-file", "x"}, "--client-ca-file: needs --tls-cert-file"},
		"no client CA":     {[]string{"--policies", ".", "--tls-cert-file", "x", "--tls-key-file", "x", "--allowed-client-names", "a"}, "--allowed-client-names: needs --client-ca-file"},
		"no such files":    {[]string{"--policies", "../../config/samples", "--tls-cert-file", "/no/cert", "--tls-key-file", "/no/key"}, "open /no/cert"},
		"a bad header":     {[]string{"--policies", ".", "--principal-header", "X-User:"}, "--principal-header"},
		"no token file":    {[]string{"--policies", ".", "--admin-token-file", "/no/token"}, "--admin-token-file: open /no/token"},
		"an empty token":   {[]string{"--policies", ".", "--admin-token-file", os.DevNull}, "--admin-token-file: /dev/null contains no token"},
		"a level":          {[]string{"--policies", ".", "--log-level", "loud"}, "--log-level"},
		"a detail":         {[]string{"--policies", ".", "--metrics-detail", "Key"}, "--metrics-detail \"Key\": must be Policy or Namespace"},
		"no such address":  {[]string{"--policies", "../../config/samples", "--http-address", "256.0.0.1:1", "--grpc-address", "", "--operator-address", "", "--metrics-address", ""}, `--http-address "256.0.0.1:1": lookup`},
		"no console":       {[]string{"--policies", ".", "--console", "--operator-address", ""}, "--console: needs --operator-address"},
		"no operator port": {[]string{"--policies", ".", "--operator-address", "localhost"}, `--operator-address "localhost": must be host:port, such as 127.0.0.1:8083, or empty`},
		"a port by name":   {[]string{"--policies", ".", "--operator-address", "localhost:weir"}, "must be host:port"},
		"a large port":     {[]string{"--policies", ".", "--operator-address", "localhost:65536"}, "must be host:port"},
		"all addresses":    {[]string{"--policies", ".", "--operator-address", ":8083"}, `--operator-address ":8083": beyond loopback it needs --tls-cert-file and --tls-key-file`},
		"another address":  {[]string{"--policies", ".", "--operator-address", "192.0.2.1:8083"}, "beyond loopback"},
		"another name":     {[]string{"--policies", ".", "--operator-address", "weir.example:8083"}, "beyond loopback"},
		"an unknown flag":  {[]string{"--polices", "."}, "unknown flag: --polices"},
		"an empty folder?": {[]string{"--policies", "../../docs/nowhere"}, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newStandaloneCommand()
			cmd.SetArgs(tc.args)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			NewWithT(t).Expect(cmd.ExecuteContext(t.Context())).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestStandaloneRejectsInvalidLocalFlags(t *testing.T) {
	for _, tc := range []struct{ flag, want string }{
		{"--local-keys=0", "--local-keys 0: must be at least 1"},
		{"--slices=-1", "--slices -1: must not be negative"},
		{"--replicas=0", "--replicas 0: must be 1..1000"},
		{"--replicas=1001", "--replicas 1001: must be 1..1000"},
	} {
		cmd := newStandaloneCommand()
		cmd.SetArgs([]string{"--policies", t.TempDir(), tc.flag})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		NewWithT(t).Expect(cmd.ExecuteContext(t.Context())).To(MatchError(ContainSubstring(tc.want)))
	}
}

func TestSentinelFlagsAreValidated(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no master": {[]string{"--redis-url", "redis-sentinel://h"}, "--redis-url: redis-sentinel://h: want the name of the master"},
		"server name without TLS": {
			[]string{"--redis-url", "redis-sentinel://h/m", "--redis-server-name", "n"}, "--redis-url: --redis-server-name needs rediss://",
		},
		"sentinel password without sentinels": {
			[]string{"--redis-url", "redis://h", "--redis-sentinel-password-file", "main.go"},
			"--redis-url: --redis-sentinel-password-file needs redis-sentinel://",
		},
		"server name without Redis": {[]string{"--redis-server-name", "n"}, "--redis-*-file, --redis-server-name: need --redis-url"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newCommand()
			cmd.SetArgs(append([]string{"standalone", "--policies", "../../config/samples"}, tc.args...))
			NewWithT(t).Expect(cmd.ExecuteContext(t.Context())).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}

func TestStandaloneRejectsRedisFilesWithoutRedis(t *testing.T) {
	cmd := newCommand()
	cmd.SetArgs([]string{"standalone", "--policies", "../../config/samples", "--redis-ca-file", "ca.crt"})
	NewWithT(t).Expect(cmd.ExecuteContext(t.Context())).To(MatchError(ContainSubstring("need --redis-url")))
}

func TestManagerRejectsInvalidFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no Redis":            {nil, "--redis-url: is required"},
		"nothing to do":       {[]string{"--redis-url", "redis://x", "--controllers=false", "--decisions=false"}, "at least one must be true"},
		"an unknown tenancy":  {[]string{"--redis-url", "redis://x", "--tenancy", "Maybe"}, "--tenancy \"Maybe\": must be Namespace or Cluster"},
		"both lists":          {[]string{"--redis-url", "redis://x", "--watch-namespaces", "a", "--exclude-namespaces", "b"}, "--watch-namespaces, --exclude-namespaces: choose one"},
		"a namespace":         {[]string{"--redis-url", "redis://x", "--watch-namespaces", "a,B"}, `"B": a lowercase`},
		"a budget of keys":    {[]string{"--redis-url", "redis://x", "--max-namespace-key-bytes", "-1"}, "--max-namespace-key-bytes -1: must not be negative"},
		"a budget":            {[]string{"--redis-url", "redis://x", "--max-plan-bytes", "-1"}, "--max-plan-bytes -1: must not be negative"},
		"an installation":     {[]string{"--redis-url", "redis://x", "--installation", "a/b"}, "--installation"},
		"a replica":           {[]string{"--redis-url", "redis://x", "--replica", "a/b"}, "--replica"},
		"a missing config":    {[]string{"--redis-url", "redis://x", "--kubeconfig", "/no/such/file"}, "--kubeconfig: stat /no/such/file"},
		"a missing password":  {[]string{"--redis-url", "redis://x", "--controllers=false", "--redis-password-file", "/no/such/file"}, "open /no/such/file"},
		"a bad URL":           {[]string{"--redis-url", "http://x", "--controllers=false"}, "--redis-url: scheme \"http\""},
		"half a certificate":  {[]string{"--redis-url", "redis://x", "--webhook-cert-file", "x"}, "--webhook-cert-file: needs --webhook-key-file"},
		"the other half":      {[]string{"--redis-url", "redis://x", "--webhook-key-file", "x"}, "--webhook-key-file: needs --webhook-cert-file"},
		"no Secret":           {[]string{"--redis-url", "redis://x", "--webhook-secret", ""}, "--webhook-secret"},
		"a deadline too long": {[]string{"--redis-url", "redis://x", "--lease-renew-deadline", "20s"}, "--lease-renew-deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newManagerCommand()
			cmd.SetArgs(tc.args)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			NewWithT(t).Expect(cmd.ExecuteContext(t.Context())).To(MatchError(ContainSubstring(tc.want)))
		})
	}
}
