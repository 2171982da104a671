// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv"
)

// Without flags, the UID of the Lease's Namespace distinguishes clusters on one Redis.
func TestClustersOnOneRedis(t *testing.T) {
	g := NewWithT(t)
	ours, theirs := startCluster(t), startOwnCluster(t)
	theirs.redis = ours.redis
	ours.apply("p", 5)
	theirs.apply("p", 9)
	p := ours.manager()
	g.Eventually(p.Enforces("p")).Should(Equal(int64(5)))
	namespace := &corev1.Namespace{}
	g.Expect(ours.client.Get(t.Context(), client.ObjectKey{Name: "default"}, namespace)).To(Succeed())
	rdb := ours.redisClient()
	g.Expect(rdb.HGet(t.Context(), "weir:{registry}:term", "owner").Val()).To(Equal(string(namespace.UID) + ".weir-manager"))

	// A process that has reached no API server yet decides by the plans that it finds. They
	// turn out to belong to another cluster.
	theirs.api.Stop()
	q := theirs.manager("--controllers=false")
	g.Eventually(q.Enforces("p")).Should(Equal(int64(5)))
	g.Expect(q.Get("/readyz")).To(ContainSubstring("ok"))
	theirs.api.Start()
	g.Eventually(func() string { return q.Get("/readyz") }).Should(ContainSubstring("the plans belong to installation"))

	theirs.manager()
	g.Eventually(theirs.condition("p", v1alpha1.ConditionProgrammed)).Should(Equal("False/RegistryOwnedElsewhere"))
	g.Expect(p.Enforces("p")()).To(Equal(int64(5)))
	g.Eventually(ours.condition("p", v1alpha1.ConditionReady)).Should(Equal("True/Ready"))
}

func (c *cluster) redisClient() *redis.Client {
	c.tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: c.redis.Addr})
	c.tb.Cleanup(func() { _ = client.Close() })
	return client
}

// The name that an installation had before the default was the UID of its Namespace.
func TestInstallationIsRenamed(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	c.apply("p", 5)
	before := c.manager("--installation", "weir")
	g.Eventually(before.Enforces("p")).Should(Equal(int64(5)))
	after := c.manager("--installation-was", "weir")
	g.Eventually(after.Enforces("p")).Should(Equal(int64(5)), "the former name still owns the registry")
	c.edit("p", 6)
	g.Eventually(c.condition("p", v1alpha1.ConditionReady)).Should(Equal("True/Ready"))
	g.Expect([]int64{before.Enforces("p")(), after.Enforces("p")()}).To(Equal([]int64{6, 6}))

	before.Signal(t, syscall.SIGINT)
	rdb := c.redisClient()
	g.Eventually(func() string { return rdb.HGet(t.Context(), testenv.PlansKey+":meta", "epoch").Val() }).
		Should(And(Not(BeEmpty()), Not(HavePrefix("weir/"))))
	c.edit("p", 7)
	g.Eventually(after.Enforces("p")).Should(Equal(int64(7)))
	g.Eventually(c.condition("p", v1alpha1.ConditionReady)).Should(Equal("True/Ready"))
}
