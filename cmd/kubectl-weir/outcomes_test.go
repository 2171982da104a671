// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// outcomeOf is a command line with its exit code and a part of its output.
type outcomeOf struct {
	args  []string
	code  int
	print string
}

// outcomesOf are the outcomes of one command.
type outcomesOf struct{ nothingThere, notMeant, done outcomeOf }

// outcomes returns the outcomes of all commands, in an order in which they can be tried against one instance: "done"
// prepares what others find. shadow, enforce, groups and raise change a cluster, wire and exceptions read one: the
// tests of test/plugin have their success.
func outcomes(t *testing.T) map[string]outcomesOf {
	t.Helper()
	g, dir := NewWithT(t), t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
		return path
	}
	const policy = "apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: new, namespace: shop}\n" +
		"spec: {limits: [{name: l, algorithm: FixedWindow, threshold: 1, window: 1m}]}\n"
	empty, valid, wrong := write("empty.yaml", ""), write("valid.yaml", policy), write("wrong.yaml", strings.Replace(policy, "threshold", "treshold", 1))
	log := write("access.log", `192.0.2.1 - - [25/Nov/2026:14:03:05 +0000] "GET / HTTP/1.1" 200 1 "-" "-"`+"\n")
	ingress := write("ingress.yaml", "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i, namespace: shop, annotations: "+
		"{nginx.ingress.kubernetes.io/limit-rpm: \"5\"}}\nspec: {rules: [{host: shop.example}]}\n")
	const parts = "shop/login has the key [header X-Account, client address]: give both parts"
	return map[string]outcomesOf{
		"block": {
			outcomeOf{[]string{"block", "nonesuch", "a", "--for", "1h"}, 1, `policy "shop/nonesuch" has no plan`},
			outcomeOf{[]string{"block", "login", "user-42", "--for", "1h"}, 1, parts},
			outcomeOf{[]string{"block", "login", "user-42", "192.0.2.1", "--for", "1h"}, 0, "Blocked the key under shop/login for 1h."},
		},
		"state": {
			outcomeOf{[]string{"state", "login", "user-43", "192.0.2.1"}, 0, "Blocked:   no"},
			outcomeOf{[]string{"state", "login", "user-42", "not-an-address"}, 1, "key[1]: must be an IP address"},
			outcomeOf{[]string{"state", "login", "user-42", "192.0.2.1"}, 0, "by an operator"},
		},
		"who": {
			outcomeOf{[]string{"who", "user-43"}, 0, "No key with user-43 is blocked, or was denied in the last minutes."},
			outcomeOf{[]string{"who", "user-42", "192.0.2.1"}, 2, "accepts 1 arg(s), received 2"},
			outcomeOf{[]string{"who", "user-42"}, 0, "kubectl weir unblock login --key-hash 82dbcb2fa6487134 -n shop"},
		},
		"blocks": {
			outcomeOf{[]string{"blocks", "burst"}, 0, "No key is blocked by shop/burst."},
			outcomeOf{[]string{"blocks", "nonesuch"}, 1, `policy "shop/nonesuch" has no plan`},
			outcomeOf{[]string{"blocks"}, 0, "user-42 192.0.2.1"},
		},
		"top": {
			outcomeOf{[]string{"top", "burst"}, 0, "No key was denied in the last minutes."},
			outcomeOf{[]string{"top", "nonesuch"}, 1, `policy "shop/nonesuch" has no plan`},
			outcomeOf{[]string{"top"}, 0, "(total)"},
		},
		"explain": {
			outcomeOf{[]string{"explain", "https://nonesuch.example/"}, 0, "Decision:   allowed, NoPolicy"},
			outcomeOf{[]string{"explain", "shop.example/login"}, 2, "must be a URL such as"},
			outcomeOf{[]string{"explain", "-X", "POST", "https://shop.example/login", "-H", "X-Account: user-42", "--remote-address", "192.0.2.1"}, 0, "Decision:   denied, Blocked, by shop/login"},
		},
		"unblock": {
			outcomeOf{[]string{"unblock", "login", "user-43", "192.0.2.1"}, 0, "The key was not blocked under shop/login."},
			outcomeOf{[]string{"unblock", "login", "user-42"}, 1, parts},
			outcomeOf{[]string{"unblock", "login", "--part", "x-account=user-42"}, 0, "Lifted the block of the key under shop/login."},
		},
		"reset": {
			outcomeOf{[]string{"reset", "login", "user-43", "192.0.2.1"}, 0, "The key had no spent units and no block under shop/login."},
			outcomeOf{[]string{"reset", "login", "--part", "x-account=nobody"}, 1, "no listed key of shop/login has --part x-account=nobody"},
			outcomeOf{[]string{"reset", "burst", "192.0.2.1"}, 0, "Reset the key under shop/burst."},
		},
		"check": {
			outcomeOf{[]string{"check", "--address", "http://127.0.0.1:1"}, 1, "FAILED       decisions"},
			outcomeOf{[]string{"check", "login"}, 2, `unknown command "login"`},
			outcomeOf{[]string{"check"}, 0, "ok           decisions"},
		},
		"diff": {
			outcomeOf{[]string{"diff", "-f", edited(t)}, 0, "shop/login: no difference"},
			outcomeOf{[]string{"diff", "-f", "/no/such/file"}, 3, "no such file"},
			outcomeOf{[]string{"diff", "-f", valid}, 1, "shop/new: new"},
		},
		"validate": {
			outcomeOf{[]string{"validate", empty}, 1, "found no RateLimitPolicy"},
			outcomeOf{[]string{"validate", wrong}, 1, "unknown field"},
			outcomeOf{[]string{"validate", valid}, 0, "1 valid policy"},
		},
		"backtest": {
			outcomeOf{[]string{"backtest", "-f", empty, "--access-log", log}, 2, "the files have no RateLimitPolicy"},
			outcomeOf{[]string{"backtest", "-f", valid, "--access-log", "/no/such/file"}, 1, "no such file"},
			outcomeOf{[]string{"backtest", "-f", valid, "--access-log", log}, 0, "Requests:"},
		},
		"convert": {
			outcomeOf{[]string{"convert", "ingress-nginx", empty}, 1, "found no limits to convert; the command reads Ingresses"},
			outcomeOf{[]string{"convert", "nginx", ingress}, 2, `unknown command "nginx"`},
			outcomeOf{[]string{"convert", "ingress-nginx", ingress}, 0, "kind: RateLimitPolicy"},
		},
		"shadow": {
			outcomeOf{[]string{"shadow", "login", "--for", "1h", "--address", ""}, 1, "names no cluster"},
			outcomeOf{[]string{"shadow", "login", "--for", "25h"}, 2, "must be 1s to 24h"},
			outcomeOf{}, // TestShadowAndEnforce of test/plugin
		},
		"groups": {
			outcomeOf{[]string{"groups", "list", "--address", ""}, 1, "names no cluster"},
			outcomeOf{[]string{"groups", "import", log}, 2, "--group: is required"},
			outcomeOf{}, // TestGroupsOfACluster of test/plugin
		},
		"enforce": {
			outcomeOf{[]string{"enforce", "login", "--address", ""}, 1, "names no cluster"},
			outcomeOf{[]string{"enforce", "login", "user-42"}, 2, "accepts 1 arg(s), received 2"},
			outcomeOf{}, // TestShadowAndEnforce of test/plugin
		},
		"raise": {
			outcomeOf{[]string{"raise", "login", "user-42", "--limit", "burst=50", "--for", "1h", "--address", ""}, 1, "names no cluster"},
			outcomeOf{[]string{"raise", "login", "user-42", "--limit", "burst", "--for", "1h"}, 2, "must be LIMIT=NUMBER"},
			outcomeOf{}, // TestRaiseAndPrune of test/plugin
		},
		"exceptions": {
			outcomeOf{[]string{"exceptions", "--address", ""}, 1, "names no cluster"},
			outcomeOf{[]string{"exceptions", "prune", "login"}, 2, `unknown command "login"`},
			outcomeOf{}, // TestRaiseAndPrune of test/plugin
		},
		"access": {
			outcomeOf{[]string{"access"}, 2, `--role "": must be inspect or operator`},
			outcomeOf{[]string{"access", "--role", "operator", "--name", "weir-manager"}, 2, "is the ServiceAccount of the pods"},
			outcomeOf{[]string{"access", "--role", "operator"}, 0, "name: weir-on-call-operator\n  namespace: shop\n"},
		},
		"wire": {
			outcomeOf{[]string{"wire", "gateway/public"}, 1, "names no cluster"},
			outcomeOf{[]string{"wire", "public"}, 2, "must be gateway/NAME"},
			outcomeOf{}, // TestWire of test/plugin
		},
		"probe": {
			outcomeOf{[]string{"probe", "http://127.0.0.1:1/"}, 1, "the URL does not answer"},
			outcomeOf{[]string{"probe", "shop.example"}, 2, "must be a URL such as"},
			outcomeOf{}, // TestProbeOfAWiredURL
		},
		"targets": {
			outcomeOf{[]string{"targets"}, 1, "this Weir does not report which policies have traffic"},
			outcomeOf{[]string{"targets", "shop", "login"}, 2, "accepts at most 1 arg(s), received 2"},
			outcomeOf{}, // TestTargets
		},
		"console": {
			outcomeOf{[]string{"console", "--address", "http://127.0.0.1:1"}, 1, "does not answer"},
			outcomeOf{[]string{"console", "login"}, 2, `unknown command "login"`},
			outcomeOf{[]string{"console"}, 0, "/console/login?code="},
		},
		"version": {
			outcomeOf{[]string{"version", "--address", "http://127.0.0.1:1"}, 1, "does not answer"},
			outcomeOf{[]string{"version", "weir"}, 2, `unknown command "weir"`},
			outcomeOf{[]string{"version"}, 0, "weir devel"},
		},
	}
}

// Each command has an outcome for "nothing there", "not what you meant" and "done", with its exit code.
func TestOutcomesOfEveryCommand(t *testing.T) {
	g, s, all := NewWithT(t), start(t), outcomes(t)
	s.ask(`{"policies":["shop/burst"],"attributes":{"remoteAddress":"192.0.2.1"}}`) // what reset finds
	order := []string{"block", "state", "who", "blocks", "top", "explain", "unblock", "reset"}
	for _, cmd := range newRootCommand(genericiooptions.IOStreams{}).Commands() {
		g.Expect(all).To(HaveKey(cmd.Name()), "the command has outcomes")
		order = append(order, cmd.Name())
	}
	tried := map[string]bool{}
	for _, name := range order {
		if tried[name] {
			continue
		}
		tried[name] = true
		for kind, o := range map[string]outcomeOf{"nothing there": all[name].nothingThere, "not what you meant": all[name].notMeant} {
			t.Run(name+": "+kind, func(t *testing.T) { s.try(t, o) })
		}
		if done := all[name].done; done.args != nil {
			t.Run(name+": done", func(t *testing.T) { s.try(t, done) })
		}
	}
}

// try runs the command line. Flags of it replace those that reach the instance.
func (s *instance) try(t *testing.T, o outcomeOf) {
	t.Helper()
	g := NewWithT(t)
	flags := s.flags
	switch o.args[0] {
	case "validate", "backtest", "convert":
		flags = nil
	case "shadow", "enforce", "wire", "raise", "exceptions":
		flags = []string{"-n", "shop"}
	}
	code, out, complaint := command(t, append(append([]string{o.args[0]}, flags...), o.args[1:]...)...)
	g.Expect(out + complaint).To(ContainSubstring(o.print))
	g.Expect(code).To(Equal(o.code), out+complaint)
	if o.code == exitUsage {
		g.Expect(out).To(BeEmpty())
	}
}
