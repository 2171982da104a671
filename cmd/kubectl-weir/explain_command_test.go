// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
)

func TestExplain(t *testing.T) {
	g, s := NewWithT(t), start(t)
	g.Expect(s.succeed("explain", "-X", "POST", "https://shop.example/login", "-H", "X-Account: bob", "--remote-address", "192.0.2.1")).
		To(HavePrefix(`Decision:   allowed, Allowed

Policy:       shop/login
Applies by:   spec.matches[0]
Key:          Header x-account "bob", RemoteAddress "192.0.2.1"
Verdict:      allows, Allowed

LIMIT   ALGORITHM    WINDOW   USED   THRESHOLD   REMAINING   RETRY AFTER
burst   SlidingLog   1m       0      5           4           -
daily   SlidingLog   24h      0      20          19          -
`))
	g.Expect(s.succeed("explain", "-X", "POST", "https://shop.example/signin")).To(And(
		HavePrefix("Decision:   allowed, NoPolicy\n\nNEAR MISS"),
		MatchRegexp(`shop/login +spec.matches\[0\].paths wants "/login", the request has "/signin"\n`),
		Not(ContainSubstring("shop/burst")), HaveSuffix("\n6 policies without matches apply only to checks that name them.\n")))

	s.succeed("block", "burst", "192.0.2.9", "--for", "10m")
	g.Expect(s.succeed("explain", "--policy", "burst", "--key", "192.0.2.9")).To(And(
		MatchRegexp(`^Decision:   denied, Blocked, by shop/burst.*; retry after (10m|9m\d+s)\n`),
		ContainSubstring("Applies by:   name\n"), MatchRegexp(`Blocked: +for (10m|9m\d+s), by an operator\n`)))

	var got map[string]any
	g.Expect(json.Unmarshal([]byte(s.succeed("explain", "/login", "-o", "json")), &got)).To(Succeed())
	g.Expect(got).To(And(HaveKey("decision"), HaveKey("nearMisses")))
}
