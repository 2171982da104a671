// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gateways

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Targets of policies are compared with those that exist.
func TestTargetsAreCompared(t *testing.T) {
	g := NewWithT(t)
	existing := []string{"Gateway/shop/shop", "Gateway/shop/shop/http", "HTTPRoute/shop/shop", "HTTPRoute/shop/assets"}
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	list := &TargetList{now: now, HiddenPolicies: 2, Targets: []targetRow{
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
	g.Expect((&TargetList{scope: "in Namespace shop"}).write(&out)).To(Succeed())
	g.Expect(out.String()).To(Equal("No policy selects requests, and there are no Gateways and routes, in Namespace shop.\n"))
}
