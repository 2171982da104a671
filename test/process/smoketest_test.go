// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

func TestSmokeTestPassesOnceACheckIsDenied(t *testing.T) {
	g := NewWithT(t)
	p := startStandalone(t, "--policies", "../../config/samples")
	run := func(policy, timeout string) (string, error) {
		output, err := testenv.Command(process.Weir(t), "smoke-test", "--url", "http://"+p.HTTP, "--policy", policy, "--timeout", timeout).CombinedOutput()
		return string(output), err
	}
	for range 2 { // each run has a key of its own
		output, err := run("shop/burst", "1m")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(output).To(MatchRegexp(`^shop/burst allowed \d+ checks and denied the next one`))
	}
	g.Eventually(func() string { // again where the machine is so busy that a second passes before the first check
		output, err := run("shop/nonesuch", "1s")
		g.Expect(err).To(HaveOccurred())
		return output
	}).Should(And(ContainSubstring("the policy is not in force"), ContainSubstring("shop/nonesuch")))
}
