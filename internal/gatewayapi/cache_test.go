// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gatewayapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/kube"
)

// startCache starts a Cache until the test ends.
func startCache(t *testing.T, config *rest.Config, namespaces ...string) *Cache {
	t.Helper()
	c := New(Options{
		Config: config, Namespaces: namespaces, Interval: 200 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Services: []types.NamespacedName{{Namespace: "weir-system", Name: "weir"}},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-ended).To(Succeed())
	})
	return c
}

// judges returns what the Cache finds about the targets.
func judges(c *Cache, targets ...plan.Target) func() Finding {
	return func() Finding { return c.Snapshot().Judge(targets) }
}

// apply creates the object.
func apply(t *testing.T, api client.Client, apiVersion, kind, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(text), &object.Object)).To(Succeed())
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	status := object.Object["status"]
	NewWithT(t).Expect(api.Create(t.Context(), object)).To(Succeed())
	if status != nil {
		object.Object["status"] = status
		NewWithT(t).Expect(api.Status().Update(t.Context(), object)).To(Succeed())
	}
	return object
}

const (
	storedGateway = `
metadata: {namespace: infra, name: public}
spec: {gatewayClassName: eg, listeners: [{name: http, port: 80, protocol: HTTP}]}
`
	storedRoute = `
metadata: {namespace: shop, name: shop, labels: {app: shop}, annotations: {long: "yes"}}
spec: {parentRefs: [{namespace: infra, name: public}], rules: [{name: checkout, backendRefs: [{name: shop, port: 80}]}]}
`
	storedPolicy = `
metadata: {namespace: infra, name: weir}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: public}]
  extAuth: {grpc: {backendRefs: [{namespace: weir-system, name: weir, port: 8081}]}}
`
	storedCORS = `
metadata: {namespace: shop, name: cors}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]
  cors: {allowOrigins: ["https://*.example"]}
status:
  ancestors:
  - ancestorRef: {group: gateway.networking.k8s.io, kind: Gateway, namespace: infra, name: public}
    controllerName: gateway.envoyproxy.io/gatewayclass-controller
    conditions:
    - {type: Accepted, status: "True", reason: Accepted, message: "", observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}
`
)

// The kinds come, change and go while the Cache runs.
func TestCacheFollowsTheAPIServer(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(60 * time.Second)
	server := kube.StartAPIServer(t)
	api := server.Client()
	for _, name := range []string{"infra", "shop"} {
		g.Expect(api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	c := startCache(t, server.Config)
	limited, _ := server.Env.AddUser(envtest.User{Name: "nobody"}, nil)
	blind := startCache(t, limited.Config())
	g.Expect(judges(c, route)()).To(Equal(Finding{Result: Pending}), "nobody needs the objects")

	c.Want()
	g.Eventually(judges(c, route)).Should(Equal(Finding{NotFound, "HTTPRoute shop/shop does not exist: the API server has no kind HTTPRoute."}))
	remove := server.InstallGatewayAPI()
	g.Eventually(judges(c, route)).Should(Equal(Finding{NotFound, "HTTPRoute shop/shop does not exist."}))

	apply(t, api, gatewayVersion.String(), "Gateway", storedGateway)
	apply(t, api, gatewayVersion.String(), "HTTPRoute", storedRoute)
	g.Eventually(judges(c, checkout, gateway)).Should(BeZero())
	g.Expect(c.Snapshot().routes[routeName{kindHTTPRoute, types.NamespacedName{Namespace: "shop", Name: "shop"}}].Annotations).To(BeEmpty())
	apply(t, api, envoyVersion.String(), "SecurityPolicy", storedPolicy)
	cors := apply(t, api, envoyVersion.String(), "SecurityPolicy", storedCORS)
	g.Eventually(judges(c, checkout)).Should(HaveField("Result", Bypassed))
	g.Expect(api.Delete(t.Context(), cors)).To(Succeed())
	g.Eventually(judges(c, checkout)).Should(BeZero())
	apply(t, api, envoyVersion.String(), "SecurityPolicy", storedCORS)
	g.Eventually(judges(c, checkout)).Should(HaveField("Result", Bypassed))

	blind.Want()
	g.Eventually(judges(blind, route)).Should(BeZero(), "without permission nothing is proven")

	remove()
	g.Eventually(judges(c, checkout)).Should(Equal(Finding{NotFound, "HTTPRoute shop/shop does not exist: the API server has no kind HTTPRoute."}))
	remove = server.InstallGatewayAPI()
	g.Eventually(judges(c, checkout)).Should(Equal(Finding{NotFound, "HTTPRoute shop/shop does not exist."}))
	remove()
}

// 10,000 routes take at most 20 MiB, with everything that the Cache and client-go keep of them.
func TestRoutesTakeLittleMemory(t *testing.T) {
	const routes, most = 10_000, 20 << 20
	g := NewWithT(t)
	c := New(Options{Logger: slog.New(slog.DiscardHandler)})
	i := c.kinds[kindHTTPRoute]
	i.state = readable
	before := heap()
	store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{
		toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc,
	})
	add := c.handlerOf(t.Context(), i)
	for n := range routes {
		object := &HTTPRoute{}
		g.Expect(json.Unmarshal(largeRoute(n), object)).To(Succeed())
		stripped, err := strip(object)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(store.Add(stripped)).To(Succeed())
		add.OnAdd(stripped, true)
	}
	c.replace()
	used := heap() - before
	t.Logf("%d routes take %.1f MiB", routes, float64(used)/(1<<20))
	g.Expect(used).To(BeNumerically("<=", most))
	g.Expect(c.Snapshot().routes).To(HaveLen(routes))
	runtime.KeepAlive(store)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// largeRoute returns a route as a team writes it, with 4 rules, of about 6 KiB.
func largeRoute(n int) []byte {
	rule := func(name string) map[string]any {
		return map[string]any{
			"name":        name,
			"matches":     []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": strings.Repeat("/path", 20)}}},
			"filters":     []any{map[string]any{"type": "RequestHeaderModifier", "requestHeaderModifier": map[string]any{"set": strings.Repeat("x", 500)}}},
			"backendRefs": []any{map[string]any{"name": "service", "port": 8080}},
		}
	}
	encoded, err := json.Marshal(map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
		"metadata": map[string]any{
			"name": fmt.Sprintf("route-of-a-service-%d", n), "namespace": fmt.Sprintf("team-%d", n%200),
			"uid": fmt.Sprintf("c1a0be7e-0000-4000-8000-%012d", n), "resourceVersion": strconv.Itoa(n), "generation": 3,
			"creationTimestamp": "2026-01-01T00:00:00Z",
			"labels":            map[string]string{"app.kubernetes.io/name": fmt.Sprintf("service-%d", n), "app.kubernetes.io/managed-by": "Helm"},
			"annotations":       map[string]string{"kubectl.kubernetes.io/last-applied-configuration": strings.Repeat("y", 2000)},
			"managedFields":     []any{map[string]any{"manager": "helm", "fieldsV1": map[string]any{"f:spec": strings.Repeat("z", 1000)}}},
		},
		"spec": map[string]any{
			"parentRefs": []any{map[string]any{"namespace": "infra", "name": "public", "sectionName": "https"}},
			"hostnames":  []string{fmt.Sprintf("service-%d.example.com", n)},
			"rules":      []any{rule("checkout"), rule("search"), rule("images"), rule("rest")},
		},
		"status": map[string]any{"parents": strings.Repeat("s", 500)},
	})
	if err != nil {
		panic(err)
	}
	return encoded
}
