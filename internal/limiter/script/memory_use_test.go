// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
)

func TestMemoryUse(t *testing.T) {
	for _, on := range servers {
		t.Run(on.name, func(t *testing.T) {
			g := NewWithT(t)
			client := newClient(t, on.start(t).Addr)
			store := newStore(client)
			g.Expect(store.MemoryUse(t.Context())).To(BeZero(), "no maxmemory")
			g.Expect(client.ConfigSet(t.Context(), "maxmemory", "100mb").Err()).To(Succeed())
			g.Expect(store.MemoryUse(t.Context())).To(And(BeNumerically(">", 0), BeNumerically("<", 0.2)))
			g.Expect(client.SetRange(t.Context(), "large", 60<<20, "x").Err()).To(Succeed())
			g.Expect(store.MemoryUse(t.Context())).To(BeNumerically("~", 0.65, 0.1))
			g.Expect(client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err()).To(Succeed())
			g.Expect(store.MemoryUse(t.Context())).To(BeZero(), "keys are evicted")
			g.Expect(client.Close()).To(Succeed())
			_, err := store.MemoryUse(t.Context())
			g.Expect(err).To(HaveOccurred())
		})
	}
}

func TestMemoryUseOfACluster(t *testing.T) {
	g := NewWithT(t)
	store, _ := clusterStore(t, testenv.StartRedisCluster(t))
	g.Expect(store.MemoryUse(t.Context())).To(BeZero())
}
