// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/policyfile"
)

// runConvert runs weir convert envoy-ratelimit.
func runConvert(stdin string, args ...string) (policies, notes string, err error) {
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

// What is written to standard output can be applied; notes go elsewhere.
func TestConvertEnvoyRatelimit(t *testing.T) {
	g := NewWithT(t)
	const config = "domain: edge\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 3, replaces: [{name: x}]}}]"
	out, notes, err := runConvert(config, "-", "--namespace", "shop")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(notes).To(ContainSubstring("descriptors[0].rate_limit.replaces[0]: not carried over"))
	policies, err := policyfile.Read(t.Context(), []byte(out))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(policies).To(HaveLen(1))
	g.Expect(policies[0].Namespace + "/" + policies[0].Name).To(Equal("shop/edge-user"))

	_, _, err = runConvert("domain: edge\ndescriptors: [{rate_limit: {unit: day}}]", "-")
	g.Expect(err).To(MatchError(ContainSubstring("descriptors[0].key: must not be empty")))
	_, _, err = runConvert("", "no-such-file")
	g.Expect(err).To(HaveOccurred())
}

// A limit that cannot be converted is named, and nothing is written unless --allow-partial is set.
func TestConvertReportsLosses(t *testing.T) {
	const minute = "\n- {key: kept, rate_limit: {unit: minute, requests_per_unit: 5}}"
	for name, tc := range map[string]struct{ config, loss string }{
		"nothing": {"", ""},
		"a year":  {"\n- {key: a, rate_limit: {unit: year, requests_per_unit: 5}}", "descriptors[1].rate_limit.unit: lost: windows are at most 720h"},
		"equal keys": {
			"\n- {key: a, value: x, descriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 5}}]}",
			`descriptors[1].descriptors[0]: lost: the key "a" occurs twice`,
		},
	} {
		for _, partial := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				args := []string{"-"}
				if partial {
					args = append(args, "--allow-partial")
				}
				policies, notes, err := runConvert("domain: d\ndescriptors:"+minute+tc.config, args...)
				g.Expect(notes).To(ContainSubstring(tc.loss))
				if tc.loss == "" || partial {
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(policies).To(ContainSubstring("key: kept"))
					return
				}
				g.Expect(err).To(MatchError(ContainSubstring("1 limits cannot be converted")))
				g.Expect(statusOf(err)).To(Equal(3))
				g.Expect(policies).To(BeEmpty())
			})
		}
	}
}
