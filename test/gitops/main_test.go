// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fluxcd/pkg/ssa/utils"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/internal/manager"
	"github.com/weir-dev/weir/internal/tlsfiles"
	"github.com/weir-dev/weir/internal/webhook/certificate"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
	"github.com/weir-dev/weir/test/testenv/process"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// The tests run in the folder of the main module, which has the programs and the chart.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	SetDefaultEventuallyTimeout(timeout)
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	os.Exit(m.Run())
}

const weirNamespace = "weir-system"

// timeout is how long tests wait for what must happen.
const timeout = 2 * time.Minute

// cluster is a kube-apiserver on which Weir runs as the chart installs it, except for its pods.
type cluster struct {
	*kube.APIServer

	client     client.Client
	kubeconfig string
	plugin     string // kubectl weir
}

// startCluster starts a kube-apiserver without any object of Weir, and Weir beside it.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	g := NewWithT(t)
	server := kube.StartAPIServer(t, func(env *envtest.Environment) { env.CRDs = nil })
	c := &cluster{APIServer: server, client: server.Client(), plugin: process.Plugin(t), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	g.Expect(os.WriteFile(c.kubeconfig, server.Env.KubeConfig, 0o600)).To(Succeed())
	c.startWeir(t)
	return c
}

// startWeir starts the manager, which waits until its resource exists.
func (c *cluster) startWeir(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	exported := prometheus.NewRegistry()
	options := manager.Options{
		Options: endpoint.Options{
			RedisPrefix: "weir:", HTTPAddress: testenv.FreeAddr(t), MetricsAddress: testenv.FreeAddr(t), StoreTimeout: time.Minute,
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Registry: exported, Expiry: tlsfiles.NewExpiry(exported),
		},
		RedisURL: testenv.StartRedis(t).URL, Controllers: true, Decisions: true, Config: c.Config,
		Tenancy: compile.TenancyNamespace, Replica: "one",
		Lease: manager.LeaseOptions{
			Namespace: weirNamespace, Name: "weir-manager", Identity: "one",
			Duration: time.Minute, RenewDeadline: 45 * time.Second, RetryPeriod: 200 * time.Millisecond,
		},
		Webhook: manager.WebhookOptions{Address: testenv.FreeAddr(t), Certificate: certificate.Options{
			Names: []string{"weir-webhook.weir-system.svc"}, Namespace: weirNamespace, Secret: "weir-webhook", Configuration: "weir",
			Now: time.Now, Interval: 50 * time.Millisecond,
		}},
	}
	go func() { ended <- manager.Run(ctx, options) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
}

// manifests are the chart, rendered as Flux and Argo CD do, and the policies.
func manifests(t *testing.T) (chart, policies []*unstructured.Unstructured) {
	t.Helper()
	g := NewWithT(t)
	rendered, err := testenv.CommandContext(t.Context(), kube.Helm(t), "template", "weir", "charts/weir", "--namespace", weirNamespace,
		"--kube-version", kube.Version(t), "--set", "redis.bundled.enabled=true,redis.bundled.image=redis:7.4,gatewayAPI.admissionPolicy=true").Output()
	g.Expect(err).NotTo(HaveOccurred())
	chart = append(objects(t, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+weirNamespace+"}\n")), objects(t, rendered)...)
	chart = keep(chart, func(o *unstructured.Unstructured) bool { return o.GetAnnotations()["helm.sh/hook"] == "" })
	for _, pattern := range []string{"config/samples/namespace/*.yaml", "config/samples/*.yaml", "test/gitops/testdata/*.yaml"} {
		files, err := filepath.Glob(pattern)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(files).NotTo(BeEmpty(), pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			policies = append(policies, objects(t, text)...)
		}
	}
	return chart, policies
}

func objects(t *testing.T, text []byte) []*unstructured.Unstructured {
	t.Helper()
	list, err := utils.ReadObjects(bytes.NewReader(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return list
}

func keep(list []*unstructured.Unstructured, wanted func(*unstructured.Unstructured) bool) (kept []*unstructured.Unstructured) {
	for _, o := range list {
		if wanted(o) {
			kept = append(kept, o)
		}
	}
	return kept
}

func isPolicy(o *unstructured.Unstructured) bool { return o.GetKind() == "RateLimitPolicy" }

// live returns the object as the API server has it.
func (c *cluster) live(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(o.GroupVersionKind())
	NewWithT(t).Expect(c.client.Get(t.Context(), client.ObjectKeyFromObject(o), got)).To(Succeed())
	return got
}

// awaitEnforced waits until the leader reports that each policy is enforced, and until it has written the CA into the
// webhook's configuration.
func (c *cluster) awaitEnforced(t *testing.T, policies []*unstructured.Unstructured) {
	t.Helper()
	g := NewWithT(t)
	for _, o := range keep(policies, isPolicy) {
		g.Eventually(func() string {
			live := c.live(t, o)
			conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
			for _, condition := range conditions {
				fields, _ := condition.(map[string]any)
				if fields["type"] == "Ready" {
					return fmt.Sprint(fields["status"], " ", fields["message"])
				}
			}
			return "no condition"
		}).WithTimeout(timeout).Should(HavePrefix("True"), o.GetName())
	}
	webhook := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "weir"},
	}}
	g.Eventually(func() any {
		webhooks, _, _ := unstructured.NestedSlice(c.live(t, webhook).Object, "webhooks")
		first, _ := webhooks[0].(map[string]any)
		bundle, _, _ := unstructured.NestedString(first, "clientConfig", "caBundle")
		return bundle
	}).WithTimeout(timeout).ShouldNot(BeEmpty())
}

// weir runs a command of kubectl weir in the Namespace shop.
func (c *cluster) weir(t *testing.T, args ...string) {
	t.Helper()
	command := testenv.CommandContext(t.Context(), c.plugin, append(args, "--kubeconfig", c.kubeconfig, "-n", "shop")...)
	output, err := command.CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(output))
}

// remove deletes what was applied, except for Namespaces, whose deletion no controller completes here, and the resource.
func (c *cluster) remove(t *testing.T, list []*unstructured.Unstructured) {
	t.Helper()
	g := NewWithT(t)
	for _, o := range list {
		if o.GetKind() == "Namespace" || o.GetKind() == "CustomResourceDefinition" {
			continue
		}
		g.Expect(client.IgnoreNotFound(c.client.Delete(t.Context(), o.DeepCopy()))).To(Succeed())
		g.Eventually(func() bool {
			got := o.DeepCopy()
			err := c.client.Get(t.Context(), client.ObjectKeyFromObject(o), got)
			return err != nil && (client.IgnoreNotFound(err) == nil || meta.IsNoMatchError(err))
		}).Should(BeTrue(), o.GetKind()+" "+o.GetName())
	}
}
