// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/internal/standalone"
	"github.com/weir-dev/weir/internal/tlsfiles"
	"github.com/weir-dev/weir/test/testenv"
)

// storeTimeout is longer than any pause of a busy machine.
const storeTimeout = time.Minute

// instance is a Weir in this process, with the sample policies.
type instance struct {
	t     *testing.T
	flags []string // that reach its operator port
	url   string   // of its HTTP port
	log   testenv.Log
}

// start starts what `weir standalone` runs, with the token of its operators in a file.
func start(t *testing.T) *instance {
	t.Helper()
	g, s := NewWithT(t), &instance{t: t}
	options, token := s.options("secret\n")
	authorizer, err := httpapi.NewTokenFile(token)
	g.Expect(err).NotTo(HaveOccurred())
	options.Authorizer, options.Version, options.Console, options.Expiry = authorizer, "devel", true, tlsfiles.NewExpiry(options.Registry)
	e, err := standalone.New(t.Context(), standalone.Options{Options: options, Policies: []string{edited(t)}})
	g.Expect(err).NotTo(HaveOccurred())
	s.run(e.Run)
	return s
}

// options sets the address of the instance, and returns its options and the path of the file with the token.
func (s *instance) options(token string) (options endpoint.Options, tokenFile string) {
	s.t.Helper()
	dir := s.t.TempDir()
	s.t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	tokenFile = filepath.Join(dir, "token")
	NewWithT(s.t).Expect(os.WriteFile(tokenFile, []byte(token), 0o600)).To(Succeed())
	frontend, operator := testenv.FreeAddr(s.t), testenv.FreeAddr(s.t)
	s.url, s.flags = "http://"+frontend, []string{"--address", "http://" + operator, "--token-file", tokenFile, "-n", "shop"}
	return endpoint.Options{
		RedisPrefix: "weir:", StoreTimeout: storeTimeout, HTTPAddress: frontend, OperatorAddress: operator,
		Observe: true, LocalKeys: 1000, ReplicaName: "me",
		Frontend: limiter.FrontendOptions{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Logger:   slog.New(slog.NewJSONHandler(&s.log, nil)), Registry: prometheus.NewRegistry(),
	}, tokenFile
}

// run runs the endpoint until the test ends, and waits until it answers.
func (s *instance) run(run func(context.Context) error) {
	s.t.Helper()
	ended, ctx := make(chan error, 1), s.t.Context()
	go func() { ended <- run(ctx) }()
	s.t.Cleanup(func() { NewWithT(s.t).Eventually(ended, "1m").Should(Receive(BeNil())) })
	NewWithT(s.t).Eventually(func() int {
		code, _, _ := command(s.t, append([]string{"blocks"}, s.flags...)...)
		return code
	}, "1m").Should(Equal(0), s.log.String)
}

// command runs the command line and returns the exit code and the output.
func command(t *testing.T, args ...string) (code int, out, complaint string) {
	t.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	code = run(t.Context(), args, streams)
	return code, stdout.String(), stderr.String()
}

// succeed runs the command against the instance and returns its output.
func (s *instance) succeed(args ...string) string {
	s.t.Helper()
	code, out, complaint := command(s.t, append(args, s.flags...)...)
	NewWithT(s.t).Expect(code).To(Equal(0), complaint)
	return out
}

// Requests without the key share a budget, which has a name.
func TestTheSharedBudgetIsNamed(t *testing.T) {
	g, s := NewWithT(t), start(t)
	s.succeed("block", "burst", "--shared", "--for", "10m")
	g.Expect(s.succeed("blocks", "burst")).To(ContainSubstring("(shared)"), "as lists show it")
	g.Expect(s.succeed("state", "burst", "--shared")).To(ContainSubstring("Blocked"))
	g.Expect(s.succeed("state", "burst", "192.0.2.42")).NotTo(ContainSubstring("(shared)"))
	g.Expect(s.succeed("unblock", "burst", "--shared")).To(Equal("Lifted the block of the key under shop/burst.\n"))
	g.Expect(s.succeed("reset", "burst", "--shared")).To(Equal("The key had no spent units and no block under shop/burst.\n"))
	for want, args := range map[string][]string{
		"KEY: must not be empty; --shared names":       {"block", "burst", "", "--for", "1m"},
		"--shared: cannot be combined with --key-hash": {"state", "burst", "--shared", "--key-hash", "0123456789abcdef"},
	} {
		code, _, complaint := command(t, append(args, s.flags...)...)
		g.Expect(complaint).To(ContainSubstring(want))
		g.Expect(code).To(Equal(2))
	}
	code, _, complaint := command(t, append([]string{"state", "burst"}, s.flags...)...)
	g.Expect(complaint).To(ContainSubstring("give one part; --part NAME=VALUE finds listed keys by one part, --shared names requests without the key"))
	g.Expect(code).To(Equal(1))
}

func TestBlockIsShownAndLifted(t *testing.T) {
	g, s := NewWithT(t), start(t)
	g.Expect(s.succeed("state", "burst", "192.0.2.42")).To(Equal(`Policy:    shop/burst
Blocked:   no

LIMIT   USED   THRESHOLD   REMAINING   RETRY AFTER   RESET AFTER
short   0      3           3           -             0s
`))
	g.Expect(s.succeed("block", "burst", "192.0.2.42", "--for", "10m")).To(Equal("Blocked the key under shop/burst for 10m.\n"))
	g.Expect(s.succeed("state", "burst", "192.0.2.42")).To(ContainSubstring("by an operator"))
	g.Expect(s.succeed("state", "burst", "192.0.2.43")).To(ContainSubstring("Blocked:   no"))
	g.Expect(s.succeed("unblock", "burst", "192.0.2.42")).To(Equal("Lifted the block of the key under shop/burst.\n"))
	g.Expect(s.succeed("unblock", "burst", "192.0.2.42")).To(Equal("The key was not blocked under shop/burst.\n"))
	g.Expect(s.succeed("block", "burst", "192.0.2.42", "--for", "1h")).To(ContainSubstring("for 1h."))
	g.Expect(s.succeed("block", "burst", "192.0.2.42", "--for", "7d")).To(ContainSubstring("for 168h."))
	g.Expect(s.succeed("reset", "burst", "192.0.2.42")).To(Equal("Reset the key under shop/burst.\n"))
	g.Expect(s.succeed("reset", "burst", "192.0.2.42")).To(Equal("The key had no spent units and no block under shop/burst.\n"))
	code, _, complaint := command(t, append(append([]string{"block", "burst", "--as-given", "--for", "10m"}, s.flags...), "--", "-user")...)
	g.Expect(code).To(Equal(0), "a key that begins with a dash: "+complaint)
	g.Expect(s.log.String()).To(MatchRegexp(`"msg":"Unblocked a key",.*"claimedUser":"\S+"`))
}

func TestOutputForPrograms(t *testing.T) {
	g, s := NewWithT(t), start(t)
	for format, decode := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(text []byte, into any) error { return yaml.UnmarshalStrict(text, into) },
	} {
		var state map[string]any
		g.Expect(decode([]byte(s.succeed("state", "burst", "192.0.2.1", "-o", format)), &state)).To(Succeed())
		g.Expect(state).To(And(HaveKeyWithValue("policy", "shop/burst"), HaveKeyWithValue("blocked", false), HaveKey("limits")))
		var changed map[string]any
		g.Expect(decode([]byte(s.succeed("reset", "burst", "192.0.2.1", "-o", format)), &changed)).To(Succeed())
		g.Expect(changed).To(Equal(map[string]any{"found": false}))
	}
	g.Expect(s.succeed("state", "burst", "192.0.2.1", "-o", "yaml")).To(HavePrefix("blocked: false\n"))
	g.Expect(s.succeed("state", "burst", "192.0.2.1", "-o", "json")).To(HavePrefix("{\n  \"policy\": \"shop/burst\",\n"))
}

func TestVersionShowsBothSides(t *testing.T) {
	g, s := NewWithT(t), start(t)
	g.Expect(s.succeed("version")).To(Equal("kubectl-weir devel (commit unknown, built unknown)\nweir devel\n"))
	g.Expect(s.succeed("version", "-o", "json")).To(MatchJSON(`{"client":"devel","commit":"unknown","date":"unknown","server":"devel"}`))
	code, out, _ := command(t, "version", "--client")
	g.Expect(code).To(Equal(0))
	g.Expect(out).To(HavePrefix("kubectl-weir devel"))
}

func TestFailuresExitWithOne(t *testing.T) {
	s := start(t)
	empty := filepath.Join(t.TempDir(), "empty")
	NewWithT(t).Expect(os.WriteFile(empty, []byte("\n"), 0o600)).To(Succeed())
	wrong := filepath.Join(t.TempDir(), "wrong")
	NewWithT(t).Expect(os.WriteFile(wrong, []byte("wrong"), 0o600)).To(Succeed())
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown policy":   {[]string{"state", "nonesuch", "a"}, `error: policy "shop/nonesuch" has no plan`},
		"no key":              {[]string{"state", "burst"}, "error: key: "},
		"too long a block":    {[]string{"block", "burst", "192.0.2.1", "--for", "721h"}, "error: duration: "},
		"a wrong token":       {[]string{"state", "burst", "a", "--token-file", wrong}, "error: This path requires a valid bearer token."},
		"no token file":       {[]string{"state", "burst", "a", "--token-file", "/no/token"}, "error: --token-file: open /no/token"},
		"an empty token file": {[]string{"state", "burst", "a", "--token-file", empty}, "is empty"},
		"no Weir":             {[]string{"state", "burst", "a", "--address", "http://127.0.0.1:1"}, "error: --address http://127.0.0.1:1 does not answer: "},
		"no CA":               {[]string{"state", "burst", "a", "--ca-file", empty}, "has no certificate"},
		"no cluster":          {[]string{"state", "burst", "a", "--address", ""}, "without a cluster, use --address and --token-file"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			code, out, complaint := command(t, append(append([]string{tc.args[0]}, s.flags...), tc.args[1:]...)...)
			g.Expect(complaint).To(ContainSubstring(tc.want))
			g.Expect(code).To(Equal(1))
			g.Expect(out).To(BeEmpty())
		})
	}
}

func TestInvalidArgumentsExitWithTwo(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no command of Weir":  {[]string{"stat"}, `unknown command "stat"`},
		"no policy":           {[]string{"state"}, "requires at least 1 arg"},
		"an unknown flag":     {[]string{"state", "p", "--until", "1h"}, "unknown flag: --until"},
		"a policy with slash": {[]string{"state", "shop/p", "k"}, `POLICY "shop/p": must be a name without slash; set its Namespace with -n`},
		"no length":           {[]string{"block", "p", "k"}, "--for: must be more than 0, such as --for 10m"},
		"a long shadow":       {[]string{"shadow", "p", "--for", "25h"}, "--for 25h: must be 1s to 24h, such as --for 1h"},
		"a shadow of a week":  {[]string{"shadow", "p", "--for", "1w"}, "--for 168h: must be 1s to 24h, such as --for 1h"},
		"no shadow":           {[]string{"shadow", "p"}, "--for 0s: must be 1s to 24h, such as --for 1h"},
		"nowhere to enforce":  {[]string{"enforce", "p", "--address", "http://localhost"}, "--address: the command changes a policy in a cluster"},
		"a length in words":   {[]string{"block", "p", "k", "--for", "soon"}, `invalid argument "soon" for "--for" flag`},
		"a format":            {[]string{"state", "p", "-o", "wide"}, `-o "wide": must be json or yaml`},
		"an address":          {[]string{"state", "p", "--address", "localhost:8083"}, "--address \"localhost:8083\": must be a URL"},
		"plain text":          {[]string{"state", "p", "--address", "http://weir.example"}, "would send the token in plain text; use https"},
		"no token":            {[]string{"state", "p", "--address", "http://localhost:8083"}, "--address: needs --token-file"},
		"two tokens":          {[]string{"state", "p", "--account", "a", "--token-file", "f"}, "--account, --token-file: choose one"},
		"two ways":            {[]string{"state", "p", "--account", "a", "--address", "http://localhost"}, "--account, --address: choose one"},
		"a CA alone":          {[]string{"state", "p", "--ca-file", "f"}, "--ca-file: needs --address"},
		"nothing to check":    {[]string{"validate"}, "requires at least 1 arg"},
		"no access log":       {[]string{"backtest", "-f", "p.yaml"}, "--access-log: is required"},
		"no source":           {[]string{"convert", "nginx"}, `unknown command "nginx"`},
		"versions of what":    {[]string{"version", "weir"}, `unknown command "weir"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			code, out, complaint := command(t, tc.args...)
			g.Expect(complaint).To(And(ContainSubstring(tc.want), HaveSuffix("See kubectl weir --help.\n")))
			g.Expect(code).To(Equal(2))
			g.Expect(out).To(BeEmpty())
		})
	}
}

func TestEveryCommandHasAnExample(t *testing.T) {
	g := NewWithT(t)
	commands := newRootCommand(genericiooptions.IOStreams{}).Commands()
	g.Expect(len(commands)).To(BeNumerically(">=", 5))
	for _, cmd := range commands {
		g.Expect(cmd.Example).To(HavePrefix("  kubectl weir "+cmd.Name()), cmd.Name())
	}
}

func TestCompletion(t *testing.T) {
	g := NewWithT(t)
	code, out, _ := command(t, "__complete", "st")
	g.Expect(code).To(Equal(0))
	g.Expect(out).To(HavePrefix("state\tShow the limits"))
}
