// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/internal/manager"
	"github.com/weir-dev/weir/internal/tlsfiles"
	"github.com/weir-dev/weir/internal/webhook/certificate"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
)

func TestManager(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Manager")
}

// One manager, on a real kube-apiserver and a real Redis, serves all specs: a process
// can have only one.
var (
	apiServer *kube.APIServer
	api       client.Client
	server    *testenv.Redis
	registry  *redis.Client
	checks    string // address of the decision API
	metrics   string
	hook      string // address of the webhook
)

var _ = BeforeSuite(func(ctx SpecContext) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	apiServer = kube.StartAPIServer(GinkgoTB())
	api = apiServer.Client()
	server = testenv.StartRedis(GinkgoTB())
	registry = redis.NewClient(&redis.Options{Addr: server.Addr})
	DeferCleanup(registry.Close)
	checks = testenv.FreeAddr(GinkgoTB())
	metrics = testenv.FreeAddr(GinkgoTB())
	hook = testenv.FreeAddr(GinkgoTB())
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	exported := prometheus.NewRegistry()
	go func() {
		ended <- manager.Run(run, manager.Options{
			Options: endpoint.Options{
				RedisPrefix: "weir:", HTTPAddress: checks, MetricsAddress: metrics, StoreTimeout: time.Minute, Observe: true,
				Logger: slog.New(slog.NewTextHandler(GinkgoWriter, nil)), Registry: exported, Expiry: tlsfiles.NewExpiry(exported),
			},
			RedisURL: server.URL, Controllers: true, Decisions: true, Config: apiServer.Config,
			Tenancy: compile.TenancyCluster, Replica: "one", Budgets: plan.Budgets{Namespace: plan.Budget{KeyBytes: 140_000}},
			Lease: manager.LeaseOptions{
				Namespace: "default", Name: "weir-manager", Identity: "one",
				Duration: time.Minute, RenewDeadline: 45 * time.Second, RetryPeriod: 200 * time.Millisecond,
			},
			Webhook: manager.WebhookOptions{Address: hook, Certificate: certificate.Options{
				Names: []string{"127.0.0.1"}, Namespace: "default", Secret: "weir-webhook", Configuration: "weir",
				Now: time.Now, Interval: 50 * time.Millisecond,
			}},
		})
	}()
	DeferCleanup(func(ctx SpecContext) {
		stop()
		Eventually(ctx, ended).Should(Receive(BeNil()))
	})
	Eventually(ctx, func() int { status, _ := get(checks, "/readyz"); return status }).Should(Equal(http.StatusOK))
}, NodeTimeout(5*time.Minute))

// get returns the status and the body; 0 and the error if there is no response.
func get(address, path string) (int, string) {
	request, err := http.NewRequest(http.MethodGet, "http://"+address+path, nil)
	Expect(err).NotTo(HaveOccurred())
	return send(request)
}

// check sends a check of the policy for the key alice and returns the status.
func check(policy string) int {
	request, err := http.NewRequest(http.MethodPost, "http://"+checks+"/v1/check",
		strings.NewReader(`{"policies":["`+policy+`"],"key":"alice"}`))
	Expect(err).NotTo(HaveOccurred())
	status, _ := send(request)
	return status
}

func send(request *http.Request) (int, string) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// newNamespace returns a Namespace whose policies are deleted after the spec.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(api.Create(ctx, namespace)).To(Succeed())
	DeferCleanup(deletePolicies, namespace.Name)
	return namespace.Name
}

func deletePolicies(ctx SpecContext, namespace string) {
	Expect(api.DeleteAllOf(ctx, &v1alpha1.RateLimitPolicy{}, client.InNamespace(namespace))).To(Succeed())
}
