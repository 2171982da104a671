// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
)

func TestSentinelsFailOver(t *testing.T) {
	t.Parallel()
	for name, valkey := range map[string]bool{"redis": false, "valkey": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			s := testenv.StartRedisSentinel(t, testenv.SentinelOptions{Valkey: valkey})
			g.Expect(s.Client(s.Nodes[1]).Set(t.Context(), "k", "v", 0).Err()).To(MatchError(HavePrefix("READONLY ")))
			s.Failover()
			g.Expect(s.Client(s.Nodes[1]).Set(t.Context(), "k", "v", 0).Err()).To(Succeed())
		})
	}
}
