// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/testenv/kube"
)

// ages are what kubectl prints as the age of an object of this test.
var ages = regexp.MustCompile(`(?m) \d+m?s?$`)

// docs/tasks/exceptions.md runs as printed, on an API server with the sample policy.
func TestTheTaskOfExceptions(t *testing.T) {
	g := NewWithT(t)
	api, _ := startManager(t)
	text, err := os.ReadFile("../../config/samples/api-quota.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	policy := &v1alpha1.RateLimitPolicy{}
	g.Expect(yaml.UnmarshalStrict(text, policy)).To(Succeed())
	g.Expect(api.Create(t.Context(), policy)).To(Succeed())

	blocks := consoleBlocks(t, "tasks/exceptions.md")
	g.Expect(len(blocks)).To(BeNumerically(">", 3))
	for _, b := range blocks {
		for _, step := range b.steps {
			var words []string
			for _, w := range word.FindAllString(step.command, -1) {
				words = append(words, strings.Trim(w, "'"))
			}
			g.Expect(words[0]).To(Equal("kubectl"))
			var got string
			if words[1] == "weir" {
				code, out, complaint := command(t, words[2:]...)
				want := exitSuccess
				if strings.HasPrefix(step.output, "error: ") {
					want = exitFailure
				}
				g.Expect(code).To(Equal(want), step.command+"\n"+out+complaint)
				got = strings.Replace(out+complaint, "Waiting until every replica has loaded it.\n", "", 1)
			} else {
				out, err := exec.CommandContext(t.Context(), kube.Kubectl(t), words[1:]...).CombinedOutput()
				g.Expect(err).NotTo(HaveOccurred(), string(out))
				got = string(out)
			}
			got, want := ages.ReplaceAllString(got, ""), ages.ReplaceAllString(step.output, "")
			g.Expect(isSame(got, want)).To(BeTrue(), "$ %s\n%s\nThe page has:\n%s", step.command, got, want)
		}
	}
}

// The sample exception fits the sample policy.
func TestTheSampleExceptionIsValid(t *testing.T) {
	g := NewWithT(t)
	code, out, complaint := command(t, "validate", "../../config/samples/api-quota.yaml", "../../config/samples/exceptions")
	g.Expect(code).To(Equal(0), out+complaint)
	g.Expect(out).To(ContainSubstring("0 errors"))
	g.Expect(out).To(ContainSubstring("1 valid exception"))
}
