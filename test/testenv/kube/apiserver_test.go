// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv/kube"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

func TestAPIServerComesBackWithItsData(t *testing.T) {
	g := NewWithT(t)
	server := kube.StartAPIServer(t)
	c := server.Client()
	policy := testpolicy.Make("login").Limit("burst", v1alpha1.AlgorithmSlidingLog, 5, "1m").Obj()
	g.Expect(c.Create(t.Context(), policy)).To(Succeed())

	server.Stop()
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)).NotTo(Succeed())

	server.Start()
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)).To(Succeed())
	g.Expect(policy.Spec.Limits).To(HaveLen(1))
}
