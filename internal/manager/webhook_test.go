// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"crypto/tls"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/config/webhook"
	"github.com/weir-dev/weir/internal/testenv"
)

var _ = Describe("The webhook of the manager", func() {
	It("is called by the API server, which trusts the issued certificate", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		configuration, err := webhook.Configuration()
		Expect(err).NotTo(HaveOccurred())
		hookConfig := &configuration.Webhooks[0]
		hookConfig.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new("https://" + hook + *hookConfig.ClientConfig.Service.Path)}
		hookConfig.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
		Expect(api.Create(ctx, configuration)).To(Succeed())
		DeferCleanup(api.Delete, configuration)

		good := testenv.MakePolicy(namespace+"/p").Limit("l", v1alpha1.AlgorithmFixedWindow, 5, "1m")
		bad := good.Obj()
		bad.Spec.Matches = []v1alpha1.Match{{Paths: []string{"/a//b"}}}
		Eventually(ctx, func(ctx context.Context) error { return api.Create(ctx, bad, client.DryRunAll) }).
			Should(MatchError(apierrors.IsInvalid, "invalid"))
		Expect(api.Create(ctx, good.Obj())).To(Succeed())

		_, body := get(metrics, "/metrics")
		Expect(body).To(ContainSubstring(`controller_runtime_webhook_requests_total{code="200"`))
	})

	It("accepts no TLS version before 1.2", func() {
		config := &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, InsecureSkipVerify: true}
		_, err := tls.Dial("tcp", hook, config)
		Expect(err).To(MatchError(ContainSubstring("protocol version")))
	})
})
