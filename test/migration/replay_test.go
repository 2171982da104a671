// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"flag"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

var record = flag.Bool("record", false, "rewrite the answers of the service, with RATELIMIT_BIN")

// answersFile has the answers of the service by scenario.
const answersFile = "testdata/answers.yaml"

// randomScenarios is the number of scenarios at random.
const randomScenarios = 30

func allScenarios() []scenario {
	all := scenarios
	for seed := range uint64(randomScenarios) {
		all = append(all, randomScenario(seed))
	}
	return all
}

// Weir with the converted policies answers like envoyproxy/ratelimit, except where a call documents a difference.
func TestAnswersLikeRatelimit(t *testing.T) {
	g := NewWithT(t)
	all := allScenarios()
	recorded := recordedAnswers(t, all)
	weir := startWeir(t, all)
	denied, calls := 0, 0
	for i := range all {
		s := &all[i]
		want := recorded[s.name]
		g.Expect(want).To(HaveLen(len(s.calls)), "%s: record it anew with RATELIMIT_BIN and -record", s.name)
		got := answersTo(t, weir, s)
		for j, c := range s.calls {
			calls++
			if c.weir != "" {
				g.Expect(c.weir).NotTo(Equal(want[j]), "%s, call %d: no difference", s.name, j)
				want[j] = c.weir
			} else if want[j][:2] != "OK" {
				denied++
			}
			g.Expect(got[j]).To(Equal(want[j]), "%s, call %d: %+v\n%s", s.name, j, c, s.config)
		}
	}
	g.Expect(calls).To(BeNumerically(">", 2400))
	g.Expect(denied).To(BeNumerically(">", 100))
}

// recordedAnswers returns the recorded answers. With RATELIMIT_BIN the service must still give them, or -record rewrites
// them.
func recordedAnswers(t *testing.T, all []scenario) map[string][]string {
	t.Helper()
	g := NewWithT(t)
	recorded := map[string][]string{}
	if program := os.Getenv("RATELIMIT_BIN"); program != "" {
		service, current := startService(t, program, all), map[string][]string{}
		for i := range all {
			current[all[i].name] = answersTo(t, service, &all[i])
		}
		if *record {
			text, err := yaml.Marshal(current)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(os.WriteFile(answersFile, append([]byte(header), text...), 0o600)).To(Succeed())
		}
		defer func() { g.Expect(current).To(Equal(recorded), "the answers of %s", program) }()
	}
	text, err := os.ReadFile(answersFile)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(yaml.Unmarshal(text, &recorded)).To(Succeed())
	return recorded
}

// header begins answersFile.
const header = "# The answers of envoyproxy/ratelimit, commit 3fb702589d36 of 2026-01-22, to the calls of scenarios_test.go, as\n" +
	"# \"overall code: code remaining/all, ...\" of the descriptors. Written by -record.\n"
