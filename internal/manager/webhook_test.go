// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/config/webhook"
	hookv1alpha1 "github.com/weir-dev/weir/internal/webhook/v1alpha1"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

var _ = Describe("The webhook of the manager", func() {
	It("is called by the API server, which trusts the issued certificate", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		configureWebhook(ctx, namespace)
		good := testpolicy.Make(namespace+"/p").Limit("l", v1alpha1.AlgorithmFixedWindow, 5, "1m")
		bad := good.Obj()
		bad.Spec.Matches = []v1alpha1.Match{{Paths: []string{"/a//b"}}}
		Eventually(ctx, func(ctx context.Context) error { return api.Create(ctx, bad, client.DryRunAll) }).
			Should(MatchError(apierrors.IsInvalid, "invalid"))
		Expect(api.Create(ctx, good.Obj())).To(Succeed())

		_, body := get(metrics, "/metrics")
		Expect(body).To(ContainSubstring(`controller_runtime_webhook_requests_total{code="200"`))
	})

	It("asks the API server whom a caller may impersonate", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		configureWebhook(ctx, namespace)
		e := &v1alpha1.RateLimitException{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "launch", Annotations: map[string]string{v1alpha1.RequestedByAnnotation: "jane"}},
			Spec:       v1alpha1.RateLimitExceptionSpec{Policy: "api", Until: metav1.NewTime(time.Now().Add(time.Hour)), Action: v1alpha1.ExceptionActionAllow},
		}
		role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit-exceptions"}
		Expect(api.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"ratelimitexceptions"}, Verbs: []string{"create"},
		}}})).To(Succeed())
		Expect(api.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bob"}, RoleRef: role,
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "bob"}},
		})).To(Succeed())
		config := rest.CopyConfig(apiServer.Config)
		config.Impersonate.UserName = "bob"
		bob, err := client.New(config, client.Options{Scheme: api.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(ctx context.Context) error { return bob.Create(ctx, e.DeepCopy(), client.DryRunAll) }).
			Should(MatchError(ContainSubstring("may not impersonate")))
		Expect(api.Create(ctx, e)).To(Succeed(), "system:masters may impersonate everybody")
	})

	It("judges a policy while another address has 500 slow connections", func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		configureWebhook(ctx, namespace)
		bad := testpolicy.Make(namespace+"/p").Limit("l", v1alpha1.AlgorithmFixedWindow, 5, "1m").
			Match(v1alpha1.Match{Paths: []string{"/a//b"}}).Obj()
		judge := func(ctx context.Context) error { return api.Create(ctx, bad.DeepCopy(), client.DryRunAll) }
		Eventually(ctx, judge).Should(MatchError(apierrors.IsInvalid, "invalid"))
		median := func() time.Duration {
			var times []time.Duration
			for range 21 {
				started := time.Now()
				Expect(judge(ctx)).To(MatchError(apierrors.IsInvalid, "invalid"))
				times = append(times, time.Since(started))
			}
			slices.Sort(times)
			return times[len(times)/2]
		}
		before := median()
		// 127.0.0.2 is another pod: Linux routes all of 127.0.0.0/8 to the loopback interface.
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
		dripping, stop := context.WithCancel(ctx)
		var drips sync.WaitGroup
		defer drips.Wait()
		defer stop()
		for range 500 {
			drips.Go(func() { drip(dripping, dialer) })
		}
		Eventually(func() string { _, body := get(metrics, "/metrics"); return body }).WithContext(ctx).
			Should(ContainSubstring(`weir_webhook_rejections_total{reason="connections"}`))
		Expect(median()).To(BeNumerically("<", max(10*before, 200*time.Millisecond)), "before the attack: %v", before)
	}, NodeTimeout(5*time.Minute))

	It("accepts no TLS version before 1.2", func() {
		config := &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, InsecureSkipVerify: true}
		_, err := tls.Dial("tcp", hook, config)
		Expect(err).To(MatchError(ContainSubstring("protocol version")))
	})
})

// configureWebhook makes the API server call the webhook for policies of the Namespace.
func configureWebhook(ctx context.Context, namespace string) {
	GinkgoHelper()
	configuration, err := webhook.Configuration()
	Expect(err).NotTo(HaveOccurred())
	for i := range configuration.Webhooks {
		w := &configuration.Webhooks[i]
		w.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new("https://" + hook + *w.ClientConfig.Service.Path)}
		w.TimeoutSeconds = new(int32(30)) // a busy machine may need more than the release allows
		w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	}
	Expect(api.Create(ctx, configuration)).To(Succeed())
	DeferCleanup(api.Delete, configuration)
}

// drip keeps a connection to the webhook on which it sends the body of a request byte by
// byte. It opens another one whenever the webhook closes it, until ctx ends.
func drip(ctx context.Context, dialer *net.Dialer) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for ctx.Err() == nil {
		raw, err := dialer.DialContext(ctx, "tcp", hook)
		if err == nil {
			closeAtEnd := context.AfterFunc(ctx, func() { _ = raw.Close() })
			c := tls.Client(raw, &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true})
			_, err = io.WriteString(c, "POST "+hookv1alpha1.Path+" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{")
			for ; err == nil; _, err = io.WriteString(c, " ") {
				<-ticker.C
			}
			_ = raw.Close()
			closeAtEnd()
		}
		<-ticker.C
	}
}
