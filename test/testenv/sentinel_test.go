// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

func TestSentinelsFailOver(t *testing.T) {
	t.Parallel()
	testSentinelsFailOver(t, testenv.SentinelOptions{})
}

func testSentinelsFailOver(t *testing.T, options testenv.SentinelOptions) {
	t.Helper()
	g := NewWithT(t)
	s := testenv.StartRedisSentinel(t, options)
	g.Expect(s.Client(s.Nodes[1]).Set(t.Context(), "k", "v", 0).Err()).To(MatchError(HavePrefix("READONLY ")))
	s.Failover()
	g.Expect(s.Client(s.Nodes[1]).Set(t.Context(), "k", "v", 0).Err()).To(Succeed())
}
