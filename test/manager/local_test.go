// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv/process"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// Processes that only decide learn from their heartbeats how many they are, and keep the number
// while Redis is away.
func TestManagerLimitsLocallyWithoutRedis(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	c.manager("--decisions=false")
	c.create(testpolicy.Make("shop/p").Limit("hourly", v1alpha1.AlgorithmFixedWindow, 10, "1h").
		FailureMode(v1alpha1.FailureModeLocal).Obj())
	replicas := []*process.Running{c.manager("--controllers=false", "--replica", "a"), c.manager("--controllers=false", "--replica", "b")}
	// A replica whose heartbeat is three seconds late, on a busy machine, does not count. The attempt is then repeated.
	for key, settled := 0, false; !settled; key++ {
		g.Expect(key).To(BeNumerically("<", 10), "the replicas do not stay")
		for _, p := range replicas {
			g.Eventually(p.Enforces("p")).Should(Equal(int64(10)))
			g.Eventually(func() string { return p.Get("/v1/policies") }).
				Should(And(ContainSubstring(`"name":"a"`), ContainSubstring(`"name":"b"`)))
		}
		seen := time.Now()
		c.redis.Stop()
		var admitted []int
		for _, p := range replicas {
			admitted = append(admitted, p.Admits("p", fmt.Sprint("key-", key)))
		}
		if settled = slices.Equal(admitted, []int{5, 5}); !settled {
			g.Expect(time.Since(seen)).To(BeNumerically(">", time.Second), "admitted %v", admitted)
			c.redis.Start()
		}
	}
}
