// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/config/webhook"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/webhook/v1alpha1"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
)

func TestWebhook(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Webhook")
}

var (
	server   *kube.APIServer
	api      client.Client
	received warnings
)

var _ = BeforeSuite(func() {
	log.SetLogger(logr.Discard())
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(10 * time.Millisecond)
	server = kube.StartAPIServer(GinkgoTB())
	server.Config.WarningHandler = &received
	api = server.Client()
})

// warnings collects the warnings of the API server.
type warnings struct {
	mu   sync.Mutex
	list []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.list
	w.list = nil
	return list
}

var _ rest.WarningHandler = (*warnings)(nil)

var (
	metrics = prometheus.NewRegistry()
	reviews = v1alpha1.NewReviews(metrics)
)

// reviewed returns how many answers had the result.
func reviewed(result string) float64 {
	families, err := metrics.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == result {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// budget is the budget of each Namespace.
var budget = plan.Budget{Policies: 20, Bytes: 400_000, KeyBytes: 40_000, Exceptions: 3, ExceptionBytes: 80_000}

// serve serves the validator to the API server until the spec ends or stop is called.
func serve(ctx context.Context, namespace string, tenancy compile.Tenancy) (stop func()) {
	GinkgoHelper()
	policies, err := cache.New(server.Config, cache.Options{Scheme: server.Env.Scheme})
	Expect(err).NotTo(HaveOccurred())
	authorization, err := authorizationclient.NewForConfig(server.Config)
	Expect(err).NotTo(HaveOccurred())
	validator := &v1alpha1.Validator{
		Namespaces: api, Access: authorization.SubjectAccessReviews(), Tenancy: tenancy, Sizes: &v1alpha1.RecordSizes{Objects: policies, Budget: budget}, Reviews: reviews,
		ReviewTime: time.Minute, // a busy machine may need more than the default
	}
	Expect(validator.Follow(ctx, policies)).To(Succeed())
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() { _ = policies.Start(run) }()
	DeferCleanup(cancel)
	handler, err := v1alpha1.NewHandler(server.Env.Scheme, validator)
	Expect(err).NotTo(HaveOccurred())
	https := httptest.NewTLSServer(handler)
	DeferCleanup(https.Close)
	configure(ctx, namespace, https.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw}))
	return https.Close
}

// configure applies the webhook configuration of the release for the policies of one
// Namespace, with the given URL and CA bundle.
func configure(ctx context.Context, namespace, url string, bundle []byte) {
	GinkgoHelper()
	configuration, err := webhook.Configuration()
	Expect(err).NotTo(HaveOccurred())
	configuration.Name = namespace
	var paths []string
	for i := range configuration.Webhooks {
		hook := &configuration.Webhooks[i]
		path := *hook.ClientConfig.Service.Path
		paths = append(paths, path)
		hook.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new(url + path), CABundle: bundle}
		hook.TimeoutSeconds = new(int32(30)) // a busy machine may need more than the release allows
		hook.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	}
	Expect(paths).To(ConsistOf(v1alpha1.Path, v1alpha1.KeyGroupPath, v1alpha1.ExceptionPath))
	Expect(api.Create(ctx, configuration)).To(Succeed())
	DeferCleanup(api.Delete, configuration)
}

// awaitWebhook waits until the API server has loaded the webhook configuration and
// calls the webhook for policies of the Namespace.
func awaitWebhook(ctx context.Context, namespace string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) error {
		return api.Create(ctx, invalid(namespace), client.DryRunAll)
	}).ShouldNot(Succeed())
	received.take()
}

func newNamespace(ctx context.Context, annotations map[string]string) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-", Annotations: annotations}}
	Expect(api.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// serveExpired serves the webhook with an expired certificate.
func serveExpired(ctx context.Context, namespace string, onCall func()) {
	GinkgoHelper()
	authority := testenv.NewAuthority(GinkgoTB())
	pair, err := tls.X509KeyPair(authority.IssueUntil(GinkgoTB(), time.Now().Add(-time.Minute), "webhook", "127.0.0.1"))
	Expect(err).NotTo(HaveOccurred())
	Expect(pair.Leaf.NotAfter).To(BeTemporally("<", time.Now()))
	https := httptest.NewUnstartedServer(http.NotFoundHandler())
	https.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { onCall(); return nil, nil }, //nolint:nilnil // no other
	}
	https.Config.ErrorLog = stdlog.New(GinkgoWriter, "", 0)
	https.StartTLS()
	DeferCleanup(https.Close)
	configure(ctx, namespace, https.URL, authority.PEM)
}
