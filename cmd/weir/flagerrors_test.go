// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv/process"
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
		{smokeTest, []string{"--cert-file", bad}, "--cert-file, --key-file: need each other"},
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

// A taken port ends the process before anything else starts.
func TestTakenPortEndsTheProcess(t *testing.T) {
	g := NewWithT(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(taken.Close()).To(Succeed()) }()
	address := taken.Addr().String()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, []byte(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],
"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`), 0o600)).To(Succeed())
	managerArgs := []string{"manager", "--redis-url", "redis://127.0.0.1:1", "--kubeconfig", kubeconfig}
	for name, tc := range map[string]struct {
		args  []string
		ports []string
	}{
		"standalone":  {[]string{"standalone", "--policies", "../../config/samples"}, []string{"http", "grpc", "metrics", "operator"}},
		"manager":     {managerArgs, []string{"http", "grpc", "metrics", "operator"}},
		"controllers": {append([]string{"--decisions=false"}, managerArgs...), []string{"http", "metrics"}},
	} {
		for _, port := range tc.ports {
			t.Run(name+"/"+port, func(t *testing.T) {
				g := NewWithT(t)
				args := append(append([]string{}, tc.args...), offAddresses...)
				output, err := exec.CommandContext(t.Context(), process.Weir(t), append(args, "--"+port+"-address", address)...).CombinedOutput()
				g.Expect(err).To(MatchError("exit status 1"))
				g.Expect(string(output)).To(HaveSuffix("weir: --" + port + "-address \"" + address + "\": address already in use\n"))
				g.Expect(string(output)).NotTo(Or(ContainSubstring("Starting"), ContainSubstring("Redis is unavailable"), ContainSubstring("Waiting for")))
			})
		}
	}
}
