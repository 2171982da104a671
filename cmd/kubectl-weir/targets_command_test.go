// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/cmd/kubectl-weir/gateways"
)

// Replicas report that a check applied within seconds.
func TestTargets(t *testing.T) {
	g, s := NewWithT(t), startOnCall(t)
	g.Expect(s.succeed("targets", "login")).To(MatchRegexp(`^TARGET +POLICY +MODE +LAST CHECK +NOTE\n\(by matches\) +shop/login +Enforce +never *\n$`))
	g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Allowed"))
	g.Eventually(func() string { return s.succeed("targets", "login") }, "1m").Should(MatchRegexp(`\(by matches\) +shop/login +Enforce +under 2m ago`))
	var list gateways.TargetList
	g.Expect(json.Unmarshal([]byte(s.succeed("targets", "-A", "-o", "json")), &list)).To(Succeed())
	g.Expect(len(list.Targets)).To(BeNumerically(">", 3))
}
