// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/test/testenv"
)

// The pages of documentation are executed here: each console block of the runbook and of the page of the plugin is
// played against the sample policies on a real Redis, and its output compared. A scenario ends with the client
// admitted or denied.

// onCall is an Authorizer that grants all but to see the values of headers.
type onCall struct{}

func (onCall) Authorize(_ context.Context, _ string, verb httpapi.Verb, _, _ string) (httpapi.Caller, error) {
	if verb == httpapi.VerbReveal {
		return httpapi.Caller{}, httpapi.ErrForbidden
	}
	return httpapi.Caller{User: "on-call"}, nil
}

// samplePlans compiles the sample policies.
func samplePlans(t *testing.T) (plans []*plan.Plan) {
	t.Helper()
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(edited(t), "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		policy := &v1alpha1.RateLimitPolicy{}
		g.Expect(yaml.UnmarshalStrict(text, policy)).To(Succeed())
		compiled, problems := compile.Compile(policy, compile.Everything(), time.Now())
		g.Expect(problems).To(BeEmpty())
		plans = append(plans, compiled)
	}
	g.Expect(len(plans)).To(BeNumerically(">", 5))
	return plans
}

// startOnCall starts an endpoint with the sample policies on a real Redis, which masks the values of headers.
func startOnCall(t *testing.T) *instance {
	t.Helper()
	s := &instance{t: t}
	options, _ := s.options("token")
	client, err := redisclient.New(testenv.StartRedis(t).URL, storeTimeout)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	options.Redis, options.Authorizer, options.Traffic = client, onCall{}, true
	e := endpoint.New(options)
	e.Use(index.NewSnapshot(12, samplePlans(t)))
	s.run(e.Run)
	return s
}

// play runs the commands of the block as printed and compares the output. A command that only reads is repeated until
// replicas have reported.
func (s *instance) play(b testenv.ConsoleBlock) {
	s.t.Helper()
	g := NewWithT(s.t)
	reads := []string{"who", "blocks", "top", "state"}
	for _, step := range b.Steps {
		words := step.Words()
		g.Expect(words[:2]).To(Equal([]string{"kubectl", "weir"}), step.Command)
		words = words[2:]
		once := func() string {
			code, out, complaint := command(s.t, append(words, s.flags...)...)
			want := 0
			if strings.Contains(step.Output, "error: ") {
				want = exitFailure
			}
			g.Expect(code).To(Equal(want), step.Command+"\n"+out+complaint)
			return out + complaint
		}
		got := once()
		for end := time.Now().Add(time.Minute); !testenv.IsSameOutput(got, step.Output) && slices.Contains(reads, words[0]) && time.Now().Before(end); {
			got = once()
		}
		g.Expect(testenv.IsSameOutput(got, step.Output)).To(BeTrue(), fmt.Sprintf("$ %s\n%s\nThe page has:\n%s", step.Command, got, step.Output))
	}
}

// awaitBlocks waits until the blocks are listed, about a second after they began.
func (s *instance) awaitBlocks(n int) {
	s.t.Helper()
	NewWithT(s.t).Eventually(func() int { return strings.Count(s.succeed("blocks"), "shop/") }, "1m").Should(Equal(n))
}

// scenario plays one or more blocks under a heading of a page.
type scenario struct {
	page, heading string
	before        func(g Gomega, s *instance)
	after         func(g Gomega, s *instance)
}

var scenarios = map[string]scenario{
	"a blocked account": {
		page: "runbook.md", heading: "Inspect and lift a block",
		before: func(_ Gomega, s *instance) { s.attack("user-42", "192.0.2.1") },
		after: func(g Gomega, s *instance) {
			g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Allowed"))
		},
	},
	"an account at several addresses": {
		page: "runbook.md", heading: "Select keys by one part",
		before: func(_ Gomega, s *instance) {
			s.attack("user-42", "198.51.100.7")
			s.attack("user-42", "192.0.2.1")
			s.awaitBlocks(2)
		},
		after: func(g Gomega, s *instance) {
			g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Allowed"))
			g.Expect(s.logIn("user-42", "198.51.100.7")).To(Equal("Allowed"))
		},
	},
	"a blocked network": {
		page: "runbook.md", heading: "Block a client",
		after: func(g Gomega, s *instance) {
			g.Expect(s.logIn("user-42", "2001:db8::9")).To(Equal("Blocked"), "another address of the network")
			g.Expect(s.logIn("user-42", "2001:db9::9")).To(Equal("Allowed"))
		},
	},
	"a wrong block": {
		page: "runbook.md", heading: "Lift a wrong block",
		before: func(g Gomega, s *instance) {
			s.succeed("block", "login", "user-24", "192.0.2.1", "--for", "2h")
			g.Expect(s.logIn("user-24", "192.0.2.1")).To(Equal("Blocked"))
		},
		after: func(g Gomega, s *instance) {
			g.Expect(s.logIn("user-24", "192.0.2.1")).To(Equal("Allowed"))
		},
	},
	"a flood": {
		page: "runbook.md", heading: "List who is blocked",
		before: func(_ Gomega, s *instance) {
			for i := range 3 {
				s.attack(fmt.Sprintf("user-%d", 40+i), "192.0.2.1")
			}
			s.awaitBlocks(3)
		},
		after: func(g Gomega, s *instance) {
			for i := range 3 {
				g.Expect(s.logIn(fmt.Sprintf("user-%d", 40+i), "192.0.2.1")).NotTo(Equal("Blocked"))
			}
		},
	},
	"the page of the plugin": {
		page: "kubectl.md", heading: "kubectl weir",
		before: func(_ Gomega, s *instance) { s.attack("user-42", "192.0.2.1") },
		after: func(g Gomega, s *instance) {
			g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Blocked"))
		},
	},
	"who and --part": {
		page: "kubectl.md", heading: "Find keys by a value",
		before: func(_ Gomega, s *instance) {
			s.attack("user-42", "198.51.100.7")
			s.attack("user-42", "192.0.2.1")
			for range 6 { // three are denied
				s.ask(`{"policies":["shop/burst"],"attributes":{"remoteAddress":"192.0.2.1"}}`)
			}
			s.awaitBlocks(2)
		},
		after: func(g Gomega, s *instance) {
			g.Expect(s.succeed("blocks")).To(Equal("No key is blocked in Namespace shop.\n"))
		},
	},
	"blocks and top": {
		page: "kubectl.md", heading: "blocks and top",
		before: func(_ Gomega, s *instance) { s.attack("user-42", "192.0.2.1") },
		after: func(g Gomega, s *instance) {
			g.Expect(s.succeed("blocks")).To(Equal("No key is blocked in Namespace shop.\n"))
		},
	},
	"explain": {
		page: "kubectl.md", heading: "Explain",
		before: func(_ Gomega, s *instance) {
			s.logIn("bob", "192.0.2.1")
			s.logIn("bob", "192.0.2.1")
		},
		after: func(g Gomega, s *instance) {
			g.Expect(s.logIn("bob", "192.0.2.1")).To(Equal("Allowed"), "nothing was spent")
		},
	},
}

func TestPagesAreAsPrinted(t *testing.T) {
	for name, tc := range scenarios {
		t.Run(name, func(t *testing.T) {
			g, s, played := NewWithT(t), startOnCall(t), 0
			if tc.before != nil {
				tc.before(g, s)
			}
			for _, b := range testenv.ConsoleBlocks(t, tc.page) {
				if b.Heading == tc.heading {
					s.play(b)
					played++
				}
			}
			g.Expect(played).To(BeNumerically(">", 0), "the page has no such block")
			tc.after(g, s)
		})
	}
}

// elsewhere are the headings whose blocks other tests are about.
var elsewhere = map[string]string{
	"Check":                 "checks of a cluster: TestCheckOfTheCluster, and test/e2e",
	"Diff":                  "TestDiff",
	"Validate":              "package validate",
	"Backtest":              "package backtest",
	"An edit has no effect": "TestBrokenEditIsAsPrinted of test/plugin",
}

func TestEveryConsoleBlockIsPlayed(t *testing.T) {
	for _, page := range []string{"runbook.md", "kubectl.md"} {
		for _, b := range testenv.ConsoleBlocks(t, page) {
			played := elsewhere[b.Heading] != ""
			for _, tc := range scenarios {
				played = played || tc.page == page && tc.heading == b.Heading
			}
			if !played {
				t.Errorf("%s: the block under %q is not played", page, b.Heading)
			}
		}
	}
}
