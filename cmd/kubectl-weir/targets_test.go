// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Replicas report that a check applied within seconds.
func TestTargets(t *testing.T) {
	g, s := NewWithT(t), startOnCall(t)
	g.Expect(s.succeed("targets", "login")).To(MatchRegexp(`^TARGET +POLICY +MODE +LAST CHECK +NOTE\n\(by matches\) +shop/login +Enforce +never *\n$`))
	g.Expect(s.logIn("user-42", "192.0.2.1")).To(Equal("Allowed"))
	g.Eventually(func() string { return s.succeed("targets", "login") }, "1m").Should(MatchRegexp(`\(by matches\) +shop/login +Enforce +under 2m ago`))
	var list targetList
	g.Expect(json.Unmarshal([]byte(s.succeed("targets", "-A", "-o", "json")), &list)).To(Succeed())
	g.Expect(len(list.Targets)).To(BeNumerically(">", 3))
}

// Targets of policies are compared with those that exist.
func TestTargetsAreCompared(t *testing.T) {
	g := NewWithT(t)
	existing := []string{"Gateway/shop/shop", "Gateway/shop/shop/http", "HTTPRoute/shop/shop", "HTTPRoute/shop/assets"}
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	list := &targetList{now: now, HiddenPolicies: 2, Targets: []targetRow{
		{Policy: "shop/api", Mode: "Shadow", LastCheck: new(now.Add(-time.Minute))},
		{Target: "HTTPRoute/shop/shop", Policy: "shop/login", Mode: "Enforce", LastCheck: new(now.Add(-200 * time.Second))},
		{Target: "HTTPRoute/shop/old", Policy: "shop/login", Mode: "Enforce"},
		{Target: "Gateway/shop/shop/http", Policy: "shop/floor", Mode: "Enforce", LastCheck: new(now.Add(time.Second))},
		{Target: "HTTPRoute/shop/shop/gone", Policy: "shop/api", Mode: "Shadow", LastCheck: new(now.Add(-20 * time.Hour))},
	}}
	list.compare(existing, true)
	list.sort()
	var out strings.Builder
	g.Expect(list.write(&out)).To(Succeed())
	g.Expect(out.String()).To(Equal(`TARGET                     POLICY       MODE      LAST CHECK     NOTE
Gateway/shop/shop/http     shop/floor   Enforce   under 2m ago   
HTTPRoute/shop/assets      -            -         -              no policy names it
HTTPRoute/shop/old         shop/login   Enforce   never          not in the cluster
HTTPRoute/shop/shop        shop/login   Enforce   3m ago         
HTTPRoute/shop/shop/gone   shop/api     Shadow    20h ago        not in the cluster
(by matches)               shop/api     Shadow    under 2m ago   

Policies of Namespaces that the account may not list: 2.
`))
	out.Reset()
	g.Expect((&targetList{scope: "in Namespace shop"}).write(&out)).To(Succeed())
	g.Expect(out.String()).To(Equal("No policy selects requests, and there are no Gateways and routes, in Namespace shop.\n"))
}
