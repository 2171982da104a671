// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package kube_test

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/config/webhook"
	"github.com/weir-dev/weir/test/testenv/kube"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // of envtest
	os.Exit(kube.Main(m))
}

// The second test finds nothing of the first one, which also stopped the server.
func TestSharedAPIServerIsReset(t *testing.T) {
	configuration, err := webhook.Configuration()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shop", Name: name} }
	left := []client.Object{
		testpolicy.Make("shop/login").Limit("burst", v1alpha1.AlgorithmSlidingLog, 5, "1m").Obj(),
		&coordinationv1.Lease{ObjectMeta: named("lease")},
		&corev1.Secret{ObjectMeta: named("secret")},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "role"}},
		configuration,
	}
	t.Run("first", func(t *testing.T) {
		g, server := NewWithT(t), kube.Shared(t)
		server.CreateNamespace("shop")
		for _, object := range left {
			g.Expect(server.Client().Create(t.Context(), object)).To(Succeed())
		}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"a":"b"},"labels":{"c":"d"}}}`))
		g.Expect(server.Client().Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, patch)).To(Succeed())
		server.Stop()
	})
	t.Run("second", func(t *testing.T) {
		g, server := NewWithT(t), kube.Shared(t)
		for _, object := range left {
			g.Expect(server.Client().Get(t.Context(), client.ObjectKeyFromObject(object), object)).To(MatchError(apierrors.IsNotFound, "IsNotFound"))
		}
		admin := &rbacv1.ClusterRole{}
		g.Expect(server.Client().Get(t.Context(), client.ObjectKey{Name: "cluster-admin"}, admin)).To(Succeed())
		server.CreateNamespace("shop")
		namespace := &corev1.Namespace{}
		g.Expect(server.Client().Get(t.Context(), client.ObjectKey{Name: "shop"}, namespace)).To(Succeed())
		g.Expect(namespace.Annotations).To(BeEmpty())
		g.Expect(namespace.Labels).To(HaveLen(1), "the API server sets one")
	})
}
