// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

// The process has just begun to count, which the pages with rates report.
func TestPagesHaveSinceWhenDecisionsAreCounted(t *testing.T) {
	g, s := NewWithT(t), start(t, nil)
	b := s.logIn("operator")
	for _, path := range []string{"/console/", "/console/policy?policy=shop/login"} {
		g.Eventually(func() string { b.open(path); return b.page }, "30s").
			Should(MatchRegexp(`Decisions are counted since \d+ \w+ \d{4}, \d\d:\d\d UTC\.`), path)
	}
}
