// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

func TestVersion(t *testing.T) {
	g := NewWithT(t)
	cmd := newVersionCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	g.Expect(cmd.Execute()).To(Succeed())
	g.Expect(out.String()).To(MatchRegexp(`^weir \S+ \(commit \S+, built \S+\)\n$`))
}

// runStandalone runs the command with the sample policies until a GET of the URL succeeds, and returns its output.
func runStandalone(t *testing.T, url string, args ...string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	cmd := newStandaloneCommand()
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"--policies", "../../config/samples", "--grpc-address", "", "--metrics-address", ""}, args...))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	ended := make(chan error)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for ready := false; ; {
		select {
		case err := <-ended:
			return out.String(), err
		case <-every.C:
			if ready = ready || testenv.Probe(http.DefaultClient, url) == nil; ready {
				cancel()
			}
		}
	}
}

// One process of this machine gets the default operator port; others do without.
func TestOperatorPortIsTaken(t *testing.T) {
	g := NewWithT(t)
	run := func(args ...string) error {
		address := testenv.FreeAddr(t)
		_, err := runStandalone(t, "http://"+address+"/readyz", append(args, "--http-address", address)...)
		return err
	}
	taken, err := net.Listen("tcp", "127.0.0.1:8083")
	if err == nil { // else another process has it, which is as good
		defer func() { g.Expect(taken.Close()).To(Succeed()) }()
	}
	g.Expect(run()).To(Succeed())
	g.Expect(run("--operator-address", "127.0.0.1:8083")).To(MatchError(`--operator-address "127.0.0.1:8083": address already in use`))
}

// The command prints the address of the console.
func TestStandalonePrintsTheConsole(t *testing.T) {
	g := NewWithT(t)
	http, operator := testenv.FreeAddr(t), testenv.FreeAddr(t)
	run := func(url string, args ...string) string {
		output, err := runStandalone(t, url, append(args, "--http-address", http)...)
		g.Expect(err).NotTo(HaveOccurred())
		return output
	}
	console := "http://" + operator + "/console/"
	g.Expect(run(console, "--operator-address", operator)).To(Equal("Console: " + console + "\n"))
	operatorPort := "http://" + operator + "/v1/policies"
	g.Expect(run(operatorPort, "--operator-address", operator, "--console=false")).To(BeEmpty())
	g.Expect(run("http://"+http+"/readyz", "--operator-address", "")).To(BeEmpty())
}
