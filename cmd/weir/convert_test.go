// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/policyfile"
)

// What is written to standard output can be applied; notes go elsewhere.
func TestConvertEnvoyRatelimit(t *testing.T) {
	g := NewWithT(t)
	run := func(stdin string, args ...string) (policies, notes string, err error) {
		var out, problems bytes.Buffer
		cmd := newConvertCommand()
		cmd.SetIn(bytes.NewBufferString(stdin))
		cmd.SetOut(&out)
		cmd.SetErr(&problems)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetArgs(append([]string{"envoy-ratelimit"}, args...))
		err = cmd.Execute()
		return out.String(), problems.String(), err
	}
	const config = "domain: edge\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 3, replaces: [{name: x}]}}]"
	out, notes, err := run(config, "-", "--namespace", "shop")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(notes).To(ContainSubstring("descriptors[0].rate_limit.replaces[0]: not carried over"))
	policies, err := policyfile.Read(t.Context(), []byte(out))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(policies).To(HaveLen(1))
	g.Expect(policies[0].Namespace + "/" + policies[0].Name).To(Equal("shop/edge-user"))

	_, _, err = run("domain: edge\ndescriptors: [{rate_limit: {unit: day}}]", "-")
	g.Expect(err).To(MatchError(ContainSubstring("descriptors[0].key: must not be empty")))
	_, _, err = run("", "no-such-file")
	g.Expect(err).To(HaveOccurred())
}
