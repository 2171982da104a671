// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv"
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

	blocks := testenv.ConsoleBlocks(t, "tasks/exceptions.md")
	g.Expect(len(blocks)).To(BeNumerically(">", 3))
	for _, b := range blocks {
		for _, step := range b.Steps {
			words := step.Words()
			g.Expect(words[0]).To(Equal("kubectl"))
			var got string
			if words[1] == "weir" {
				code, out, complaint := command(t, words[2:]...)
				want := 0
				if strings.HasPrefix(step.Output, "error: ") {
					want = 1
				}
				g.Expect(code).To(Equal(want), step.Command+"\n"+out+complaint)
				got = strings.Replace(out+complaint, "Waiting until every replica has loaded it.\n", "", 1)
			} else {
				got = kubectl(t, words[1:]...)
			}
			got, want := ages.ReplaceAllString(got, ""), ages.ReplaceAllString(step.Output, "")
			g.Expect(testenv.IsSameOutput(got, want)).To(BeTrue(), "$ %s\n%s\nThe page has:\n%s", step.Command, got, want)
		}
	}
}
