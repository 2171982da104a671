// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
)

// A scenario file tells a story that the model and a real Redis must both
// tell:
//
//	policy NAME [attempts] [shadow]
//	  limit NAME ALGORITHM THRESHOLD/WINDOW [block DURATION] [reached]
//	at TIME [POLICY ...] [key KEY] [cost N] [peek] -> allow|deny|blocked [LIMIT: FACT VALUE ...]
//
// Times count from the start and never repeat an earlier file's state. Facts
// are used, remaining, retryAfter, remainingAfterWaiting and resetAfter; a
// LIMIT is POLICY/LIMIT, or LIMIT where only one policy is asked. Without
// policies the one stated last is asked. deny means that this check was refused by
// a limit, blocked that it met a live block.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.scenario")
	g := gomega.NewWithT(t)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(files).NotTo(gomega.BeEmpty())
	backends := newBackends(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".scenario"), func(t *testing.T) {
			steps := parseScenario(t, file)
			for _, b := range backends {
				t.Run(b.name, func(t *testing.T) { runScenario(t, b, steps) })
			}
		})
	}
}

type step struct {
	line   string
	at     time.Duration
	call   Call
	limits [][]Limit // of the entries
	want   string
	facts  map[string]map[string]string // limit -> fact -> value
}

func runScenario(t *testing.T, b *backend, steps []step) {
	t.Helper()
	g := gomega.NewWithT(t)
	b.clear(t)
	start := b.clock.Now()
	for _, s := range steps {
		b.clock.Set(start.Add(s.at))
		reply := b.evaluate(t, &s.call)
		g.Expect(outcome(&s.call, reply)).To(gomega.Equal(s.want), s.line)
		for i, e := range s.call.Entries {
			for j, l := range s.limits[i] {
				want := s.facts[l.Name]
				if want == nil {
					want = s.facts[e.Policy.id[len("test/"):]+"/"+l.Name]
				}
				got := factsOf(l, &reply.Entries[i].Limits[j])
				for fact, value := range want {
					g.Expect(got).To(gomega.HaveKeyWithValue(fact, value), s.line)
				}
			}
		}
	}
}

// outcome is allow, deny or blocked: what an enforcing policy does.
func outcome(call *Call, r *Reply) string {
	worst := Admitted
	for i, e := range call.Entries {
		if v := r.Entries[i].Verdict; !e.Policy.shadow && v != Admitted && worst != Blocked {
			worst = v
		}
	}
	return map[Verdict]string{Admitted: "allow", Refused: "deny", Tripped: "deny", Blocked: "blocked"}[worst]
}

func factsOf(l Limit, r *LimitReply) map[string]string {
	wait := "never"
	if r.Wait != Never {
		wait = r.Wait.String()
	}
	return map[string]string{
		"used":                  strconv.FormatInt(r.Used, 10),
		"remaining":             strconv.FormatInt(max(0, l.Quota-r.Used), 10),
		"remainingAfterWaiting": strconv.FormatInt(max(0, l.Quota-r.UsedThen), 10),
		"retryAfter":            wait,
		"resetAfter":            r.Idle.String(),
	}
}

func parseScenario(t *testing.T, file string) []step {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := scenarioParser{policies: map[string]*scenarioPolicy{}}
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if err := p.line(strings.TrimSpace(line)); err != nil {
			t.Fatalf("%s:%d: %v", file, i+1, err)
		}
	}
	return p.steps
}

type scenarioPolicy struct {
	name             string
	attempts, shadow bool
	limits           []Limit
}

type scenarioParser struct {
	policies map[string]*scenarioPolicy
	latest   string // the policy that was stated last
	steps    []step
}

func (p *scenarioParser) line(line string) error {
	words := strings.Fields(line)
	switch words[0] {
	case "policy":
		policy := &scenarioPolicy{name: words[1]}
		for _, w := range words[2:] {
			policy.attempts = policy.attempts || w == "attempts"
			policy.shadow = policy.shadow || w == "shadow"
		}
		p.policies[policy.name] = policy // stated again, it is an edit
		p.latest = policy.name
		return nil
	case "limit":
		return p.limit(p.policies[p.latest], words[1:])
	case "at":
		return p.at(line)
	}
	return fmt.Errorf("unknown word %q", words[0])
}

var algorithmNames = map[string]Algorithm{
	"FixedWindow": FixedWindow, "SlidingLog": SlidingLog, "SlidingWindow": SlidingWindow,
	"TokenBucket": TokenBucket, "GCRA": GCRA, "Suppressed": Suppressed,
}

func (p *scenarioParser) limit(policy *scenarioPolicy, words []string) error {
	l := Limit{Name: words[0], Algorithm: algorithmNames[words[1]]}
	threshold, window, _ := strings.Cut(words[2], "/")
	var err error
	if l.Threshold, err = strconv.ParseInt(threshold, 10, 64); err != nil {
		return err
	}
	if l.Window, err = time.ParseDuration(window); err != nil {
		return err
	}
	l.Quota = l.Threshold
	for i, w := range words[3:] {
		switch w {
		case "reached":
			l.Quota--
		case "block":
			if l.Block, err = time.ParseDuration(words[3+i+1]); err != nil {
				return err
			}
		}
	}
	policy.limits = append(policy.limits, l)
	return nil
}

func (p *scenarioParser) at(line string) error {
	check, want, ok := strings.Cut(line, "->")
	if !ok {
		return fmt.Errorf("no -> in %q", line)
	}
	s := step{line: line}
	words := strings.Fields(check)
	var err error
	if s.at, err = time.ParseDuration(words[1]); err != nil {
		return err
	}
	key, cost, peek := "alice", int64(1), false
	var asked []string
	for i := 2; i < len(words); i++ {
		switch words[i] {
		case "key":
			i++
			key = words[i]
		case "cost":
			i++
			if cost, err = strconv.ParseInt(words[i], 10, 64); err != nil {
				return err
			}
		case "peek":
			peek = true
		default:
			asked = append(asked, words[i])
		}
	}
	if len(asked) == 0 {
		asked = []string{p.latest}
	}
	for _, name := range asked {
		policy := p.policies[name]
		if policy == nil {
			return fmt.Errorf("no policy %q", name)
		}
		s.call.Entries = append(s.call.Entries, Entry{
			Policy: NewPolicy("test/"+name, policy.attempts, policy.shadow, policy.limits),
			Key:    EncodeKey(key), Cost: cost, Peek: peek,
		})
		s.limits = append(s.limits, policy.limits)
	}
	s.want, s.facts = parseFacts(strings.Fields(want))
	p.steps = append(p.steps, s)
	return nil
}

func parseFacts(words []string) (want string, facts map[string]map[string]string) {
	facts = map[string]map[string]string{}
	limit := ""
	for i := 1; i < len(words); i++ {
		if name, ok := strings.CutSuffix(words[i], ":"); ok {
			limit = name
			facts[limit] = map[string]string{}
			continue
		}
		value := words[i+1]
		if d, err := time.ParseDuration(value); err == nil && value != "0" {
			value = d.String()
		}
		facts[limit][words[i]] = value
		i++
	}
	return words[0], facts
}
