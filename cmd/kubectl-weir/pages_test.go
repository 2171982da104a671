// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/endpoint"
	"github.com/weir-dev/weir/internal/limiter/httpapi"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/testenv"
)

// The pages of documentation are executed here: each console block of the runbook and of the page of the plugin is
// played against the sample policies on a real Redis, and its output compared. A scenario ends with the client
// admitted or denied.

// step is a command of a console block with its output.
type step struct{ command, output string }

// block is a console block of a page.
type block struct {
	heading string
	steps   []step
}

var (
	heading   = regexp.MustCompile("^#+ +(.*)$")
	timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	word      = regexp.MustCompile(`'[^']*'|\S+`)
)

// consoleBlocks returns the console blocks of the page.
func consoleBlocks(t *testing.T, page string) (blocks []block) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	under, inside := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		command, isCommand := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```console"):
			blocks, inside = append(blocks, block{heading: under}), true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside && isCommand:
			last := &blocks[len(blocks)-1]
			last.steps = append(last.steps, step{command: command})
		case inside:
			steps := blocks[len(blocks)-1].steps
			steps[len(steps)-1].output += line + "\n"
		case heading.MatchString(line):
			under = heading.FindStringSubmatch(line)[1]
		}
	}
	return blocks
}

// isSame compares the output with the output in a page. Times may differ by some seconds, and so may the width
// of columns.
func isSame(got, want string) bool {
	is, should := strings.Split(got, "\n"), strings.Split(want, "\n")
	return slices.EqualFunc(is, should, func(a, b string) bool {
		return slices.EqualFunc(strings.Fields(a), strings.Fields(b), func(a, b string) bool {
			x, err := time.ParseDuration(strings.TrimRight(a, ".,"))
			y, other := time.ParseDuration(strings.TrimRight(b, ".,"))
			return a == b || timestamp.MatchString(a) && timestamp.MatchString(b) || err == nil && other == nil && math.Abs((x-y).Seconds()) < 60
		})
	})
}

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
	files, err := filepath.Glob("../../config/samples/*.yaml")
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
func startOnCall(t *testing.T) *standalone {
	t.Helper()
	g, s, dir := NewWithT(t), &standalone{t: t}, t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	token, door, operator := filepath.Join(dir, "token"), testenv.FreeAddr(t), testenv.FreeAddr(t)
	g.Expect(os.WriteFile(token, []byte("token"), 0o600)).To(Succeed())
	client, err := redisclient.New(testenv.StartRedis(t).URL, 5*time.Second)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	e := endpoint.New(endpoint.Options{
		Redis: client, RedisPrefix: "weir:", StoreTimeout: 5 * time.Second, HTTPAddress: door, OperatorAddress: operator,
		Authorizer: onCall{}, Observe: true, Traffic: true, LocalKeys: 1000, ReplicaName: "me",
		Logger: slog.New(slog.NewJSONHandler(&s.log, nil)), Registry: prometheus.NewRegistry(),
	})
	e.Use(plan.NewSnapshot(12, samplePlans(t)))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		NewWithT(t).Expect(<-ended).To(Succeed())
	})
	s.url, s.flags = "http://"+door, []string{"--address", "http://" + operator, "--token-file", token, "-n", "shop"}
	g.Eventually(func() int { code, _, _ := command(t, append([]string{"blocks"}, s.flags...)...); return code }, "20s").Should(Equal(0))
	return s
}

// play runs the commands of the block as printed and compares the output. A command that only reads is repeated until
// replicas have reported.
func (s *standalone) play(b block) {
	s.t.Helper()
	g := NewWithT(s.t)
	reads := []string{"who", "blocks", "top", "state"}
	for _, step := range b.steps {
		args, isWeir := strings.CutPrefix(step.command, "kubectl weir ")
		g.Expect(isWeir).To(BeTrue(), step.command)
		var words []string
		for _, w := range word.FindAllString(args, -1) {
			words = append(words, strings.Trim(w, "'"))
		}
		once := func() string {
			code, out, complaint := command(s.t, append(words, s.flags...)...)
			want := 0
			if strings.Contains(step.output, "error: ") {
				want = exitFailure
			}
			g.Expect(code).To(Equal(want), step.command+"\n"+out+complaint)
			return out + complaint
		}
		got := once()
		for end := time.Now().Add(20 * time.Second); !isSame(got, step.output) && slices.Contains(reads, words[0]) && time.Now().Before(end); {
			got = once()
		}
		g.Expect(isSame(got, step.output)).To(BeTrue(), fmt.Sprintf("$ %s\n%s\nThe page has:\n%s", step.command, got, step.output))
	}
}

// awaitBlocks waits until the blocks are listed, about a second after they began.
func (s *standalone) awaitBlocks(n int) {
	s.t.Helper()
	NewWithT(s.t).Eventually(func() int { return strings.Count(s.succeed("blocks"), "shop/") }, "20s").Should(Equal(n))
}

// scenario plays one or more blocks under a heading of a page.
type scenario struct {
	page, heading string
	before        func(g Gomega, s *standalone)
	after         func(g Gomega, s *standalone)
}

var scenarios = map[string]scenario{
	"a blocked account": {
		page: "runbook.md", heading: "Inspect and lift a block",
		before: func(_ Gomega, s *standalone) { s.attack("user-42", "192.0.2.1") },
		after: func(g Gomega, s *standalone) {
			g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Allowed"))
		},
	},
	"an account at several addresses": {
		page: "runbook.md", heading: "With one part of the key",
		before: func(_ Gomega, s *standalone) {
			s.attack("user-42", "198.51.100.7")
			s.attack("user-42", "192.0.2.1")
			s.awaitBlocks(2)
		},
		after: func(g Gomega, s *standalone) {
			g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Allowed"))
			g.Expect(s.logIn("user-42", "198.51.100.7")).To(Equal("Allowed"))
		},
	},
	"a blocked network": {
		page: "runbook.md", heading: "Block a client",
		after: func(g Gomega, s *standalone) {
			g.Expect(s.logIn("user-42", "2001:db8::9")).To(Equal("Blocked"), "another address of the network")
			g.Expect(s.logIn("user-42", "2001:db9::9")).To(Equal("Allowed"))
		},
	},
	"a wrong block": {
		page: "runbook.md", heading: "Lift a wrong block",
		before: func(g Gomega, s *standalone) {
			s.succeed("block", "login", "user-24", "192.0.2.1", "--for", "2h")
			g.Expect(s.logIn("user-24", "192.0.2.1")).To(Equal("Blocked"))
		},
		after: func(g Gomega, s *standalone) {
			g.Expect(s.logIn("user-24", "192.0.2.1")).To(Equal("Allowed"))
		},
	},
	"a flood": {
		page: "runbook.md", heading: "Who is blocked",
		before: func(_ Gomega, s *standalone) {
			for i := range 3 {
				s.attack(fmt.Sprintf("user-%d", 40+i), "192.0.2.1")
			}
			s.awaitBlocks(3)
		},
		after: func(g Gomega, s *standalone) {
			for i := range 3 {
				g.Expect(s.logIn(fmt.Sprintf("user-%d", 40+i), "192.0.2.1")).NotTo(Equal("Blocked"))
			}
		},
	},
	"the page of the plugin": {
		page: "kubectl.md", heading: "kubectl weir",
		before: func(_ Gomega, s *standalone) { s.attack("user-42", "192.0.2.1") },
		after: func(g Gomega, s *standalone) {
			g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Allowed"))
		},
	},
	"who and --part": {
		page: "kubectl.md", heading: "Find keys by a value",
		before: func(_ Gomega, s *standalone) {
			s.attack("user-42", "198.51.100.7")
			s.attack("user-42", "192.0.2.1")
			for range 6 { // three are denied
				s.ask(`{"policies":["shop/burst"],"attributes":{"remoteAddress":"192.0.2.1"}}`)
			}
			s.awaitBlocks(2)
		},
		after: func(g Gomega, s *standalone) {
			g.Expect(s.succeed("blocks")).To(Equal("No key is blocked in Namespace shop.\n"))
		},
	},
	"blocks and top": {
		page: "kubectl.md", heading: "blocks and top",
		before: func(_ Gomega, s *standalone) { s.attack("user-42", "192.0.2.1") },
		after: func(g Gomega, s *standalone) {
			g.Expect(s.succeed("blocks")).To(Equal("No key is blocked in Namespace shop.\n"))
		},
	},
	"explain": {
		page: "kubectl.md", heading: "Explain",
		before: func(_ Gomega, s *standalone) {
			s.logIn("bob", "192.0.2.1")
			s.logIn("bob", "192.0.2.1")
		},
		after: func(g Gomega, s *standalone) {
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
			for _, b := range consoleBlocks(t, tc.page) {
				if b.heading == tc.heading {
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
	"An edit has no effect": "TestBrokenEditIsAsPrinted",
}

func TestEveryConsoleBlockIsPlayed(t *testing.T) {
	for _, page := range []string{"runbook.md", "kubectl.md"} {
		for _, b := range consoleBlocks(t, page) {
			played := elsewhere[b.heading] != ""
			for _, tc := range scenarios {
				played = played || tc.page == page && tc.heading == b.heading
			}
			if !played {
				t.Errorf("%s: the block under %q is not played", page, b.heading)
			}
		}
	}
}
