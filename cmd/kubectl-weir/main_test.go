// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/testenv"
	"github.com/weir-dev/weir/internal/testenv/process"
)

var errNo = errors.New("no")

// standalone is a weir standalone with the sample policies.
type standalone struct {
	t     *testing.T
	flags []string // that reach it
	url   string   // of its HTTP port
	log   testenv.Log
}

func start(t *testing.T) *standalone {
	t.Helper()
	g, s, dir := NewWithT(t), &standalone{t: t}, t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	token, address, door := filepath.Join(dir, "token"), testenv.FreeAddr(t), testenv.FreeAddr(t)
	s.url = "http://" + door
	g.Expect(os.WriteFile(token, []byte("secret\n"), 0o600)).To(Succeed())
	s.flags = []string{"--address", "http://" + address, "--token-file", token, "-n", "shop"}
	cmd := exec.Command(process.Weir(t), "standalone", "--policies", "../../config/samples", "--admin-token-file", token,
		"--operator-address", address, "--http-address", door, "--grpc-address", "", "--metrics-address", "")
	cmd.Stderr = &s.log
	g.Expect(cmd.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	g.Eventually(func() error {
		response, err := http.Get("http://" + address + "/healthz")
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}, "20s").Should(Succeed())
	return s
}

// command runs the command line and returns the exit code and the output.
func command(t *testing.T, args ...string) (code int, out, complaint string) {
	t.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	code = run(t.Context(), args, streams)
	return code, stdout.String(), stderr.String()
}

// succeed runs the command against the process and returns its output.
func (s *standalone) succeed(args ...string) string {
	s.t.Helper()
	code, out, complaint := command(s.t, append(args, s.flags...)...)
	NewWithT(s.t).Expect(code).To(Equal(0), complaint)
	return out
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
