// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestBlocksAreListedAndLiftedByHash(t *testing.T) {
	g, s := NewWithT(t), start(t)
	g.Expect(s.succeed("blocks")).To(Equal("No key is blocked in Namespace shop.\n"))
	g.Expect(s.succeed("blocks", "-A")).To(Equal("No key is blocked in any Namespace.\n"))
	for _, key := range []string{"user-42", "user 43", "user-44"} {
		s.succeed("block", "burst", key, "--as-given", "--for", "10m")
	}
	table := s.succeed("blocks", "burst")
	row := regexp.MustCompile(`(?m)^shop/burst +user-42 +([0-9a-f]{16}) +an operator +(9m\d+|10m)`).FindStringSubmatch(table)
	g.Expect(row).NotTo(BeNil(), table)
	g.Expect(table).To(And(HavePrefix("POLICY"), ContainSubstring(`"user 43"`)))
	g.Expect(s.succeed("state", "burst", "--key-hash", row[1])).To(ContainSubstring("by an operator"))
	g.Expect(s.succeed("unblock", "burst", "--key-hash", row[1])).To(Equal("Lifted the block of the key under shop/burst.\n"))
	g.Expect(s.succeed("state", "burst", "user-42", "--as-given")).To(ContainSubstring("Blocked:   no"))
	g.Expect(s.succeed("blocks", "--limit", "1")).To(ContainSubstring("There are more blocks"))
	var list map[string]any
	g.Expect(json.Unmarshal([]byte(s.succeed("blocks", "-A", "-o", "json")), &list)).To(Succeed())
	g.Expect(list["blocks"]).To(HaveLen(2))
	g.Expect(s.succeed("unblock", "burst", "--all")).To(Equal("Blocks lifted under shop/burst: 2.\n"))
	g.Expect(s.succeed("blocks")).To(Equal("No key is blocked in Namespace shop.\n"))
	g.Expect(s.succeed("top")).To(And(ContainSubstring("(total)"), ContainSubstring("No key was denied in the last minutes.")))
	code, _, complaint := command(t, append([]string{"reset", "burst", "--key-hash", "0123456789abcdef"}, s.flags...)...)
	g.Expect(code).To(Equal(1))
	g.Expect(complaint).To(ContainSubstring("name its parts instead"))
}

func TestInvalidListArguments(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for want, args := range map[string][]string{
		"-A: cannot be combined with POLICY":      {"blocks", "login", "-A"},
		"--watch: cannot be combined with -o":     {"top", "--watch", "-o", "json"},
		"--key-hash: cannot be combined with KEY": {"state", "login", "a", "--key-hash", "b"},
		"--all: cannot be combined with a key":    {"unblock", "login", "a", "--all"},
		"--all: needs --part":                     {"reset", "login", "--all"},
		"--part: cannot be combined with a key":   {"state", "login", "a", "--part", "x-account=a"},
		`--part "a": must be NAME=VALUE`:          {"block", "login", "--part", "a", "--for", "1h"},
		"--as-given: needs KEY":                   {"state", "login", "--as-given"},
		"accepts 1 arg(s), received 0":            {"who"},
		"VALUE: must not be empty":                {"who", ""},
		"accepts at most 1 arg":                   {"blocks", "a", "b"},
		`POLICY "a/b": must be a name with`:       {"top", "a/b"},
	} {
		g := NewWithT(t)
		code, out, complaint := command(t, args...)
		g.Expect(complaint).To(ContainSubstring(want))
		g.Expect([]any{code, out}).To(Equal([]any{2, ""}), want)
	}
}

// serve answers every request with the body, and returns the flags that reach it.
func serve(t *testing.T, body string) []string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
	t.Cleanup(server.Close)
	token := filepath.Join(t.TempDir(), "token")
	NewWithT(t).Expect(os.WriteFile(token, []byte("secret"), 0o600)).To(Succeed())
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	return []string{"--address", server.URL, "--token-file", token, "-n", "shop"}
}

const topAnswer = `{"policies":[
	{"policy":"shop/login","mode":"Enforce","seconds":420,"unlisted":0,
	 "decisions":{"lastMinute":{"allowed":5,"denied":7,"shadowDenied":0},"last5Minutes":{"allowed":9,"denied":8,"shadowDenied":1},"lastHour":{"allowed":1200,"denied":90,"shadowDenied":10,"candidateDenied":21,"candidateAllowed":4}},
	 "keys":[{"key":["user…","192.0.2.1"],"keyHash":"0123456789abcdef","masked":true,"count":100,"error":0},
	         {"key":[],"keyHash":"1123456789abcdef","count":60,"error":5}]}],
	"total":{"lastMinute":{"allowed":5,"denied":7,"shadowDenied":0},"last5Minutes":{"allowed":9,"denied":9,"shadowDenied":0},"lastHour":{"allowed":1200,"denied":100,"shadowDenied":0}},
	"largestError":5,"dropped":3,"reported":["a"],"missing":["b"],"since":"2026-11-25T14:03:05Z","hiddenPolicies":2}`

func TestTopShowsDecisionsAndKeys(t *testing.T) {
	g := NewWithT(t)
	flags := serve(t, topAnswer)
	code, out, complaint := command(t, append([]string{"top"}, flags...)...)
	g.Expect(code).To(Equal(0), complaint)
	g.Expect(out).To(Equal(`POLICY       MODE      DENIED 1M   DENIED 5M   DENIED 1H   ALLOWED 1H
shop/login   Enforce   7           9           100         1200
(total)      -         7           9           100         1200

POLICY       ONLY CANDIDATE DENIES 1M   1H   ONLY CANDIDATE ALLOWS 1M   1H
shop/login   0                          21   0                          4

POLICY       KEY               HASH               DENIED
shop/login   user… 192.0.2.1   0123456789abcdef   100
shop/login   (shared)          1123456789abcdef   55-60

Decisions are counted since 2026-11-25T14:03:05Z.
These replicas did not report: b.
Denials and blocks that could not be recorded since the start of the replicas: 3.
Policies of Namespaces that the account may not list: 2.
`))
	code, out, _ = command(t, append([]string{"top", "-o", "json"}, flags...)...)
	g.Expect(code).To(Equal(0))
	g.Expect(out).To(MatchJSON(topAnswer))
}

// interrupter is an output that interrupts the command once it contains a text twice.
type interrupter struct {
	bytes.Buffer
	text      string
	interrupt func()
}

func (i *interrupter) Write(p []byte) (int, error) {
	n, err := i.Buffer.Write(p)
	if strings.Count(i.String(), i.text) == 2 {
		i.interrupt()
	}
	return n, err
}

// top --watch refreshes until it is interrupted, which is a success.
func TestTopWatches(t *testing.T) {
	g := NewWithT(t)
	args := append([]string{"top", "--watch"}, serve(t, topAnswer)...)
	ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
	defer interrupt()
	stdout := &interrupter{text: "(total)", interrupt: interrupt}
	streams, _, _, stderr := genericiooptions.NewTestIOStreams()
	streams.Out = stdout
	g.Expect(run(ctx, args, streams)).To(Equal(0), stderr.String())
	g.Expect(strings.Count(stdout.String(), "(total)")).To(Equal(2))
	g.Expect(stdout.String()).NotTo(ContainSubstring("\x1b"), "not a terminal")
}
