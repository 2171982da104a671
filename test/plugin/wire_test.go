// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
)

// wired is an API server with Envoy Gateway's kinds, Weir's Service and the printed Gateway with its routes.
type wired struct {
	t          *testing.T
	api        ctrlclient.Client
	kubeconfig string
	page       []manifests // of each code block
}

// manifests are objects by kind and name.
type manifests map[string]*unstructured.Unstructured

func decodeManifests(t *testing.T, text string) manifests {
	t.Helper()
	m := manifests{}
	for document := range strings.SplitSeq(text, "---\n") {
		o := &unstructured.Unstructured{}
		NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(document), &o.Object)).To(Succeed(), document)
		m[o.GetKind()+"/"+o.GetName()] = o
	}
	return m
}

// TestWire has an API server of its own, because Envoy Gateway's kinds take long to remove. Each part creates its own
// objects, which are deleted when it ends.
func TestWire(t *testing.T) {
	server := kube.StartAPIServer(t, func(e *envtest.Environment) {
		folder := kube.GatewayCRDs(t)
		e.CRDDirectoryPaths, e.ErrorIfCRDPathMissing = []string{folder, filepath.Join(folder, "generated")}, true
	})
	kubeconfig := useServer(t, server)
	for _, name := range []string{"shop", "infra", "weir-system", "envoy-gateway-system"} {
		server.CreateNamespace(name)
	}
	for name, test := range map[string]func(t *testing.T, w *wired){
		"prints the page": wirePrintsThePage, "with other policies": wireWithOtherPolicies,
		"names what is missing": wireNamesWhatIsMissing, "across Namespaces": wireAcrossNamespaces,
		"targets that exist": targetsThatExist,
		"with few rights":    wireWithFewRights, "beside Weir": wireBesideWeir,
	} {
		t.Run(name, func(t *testing.T) { test(t, newWired(t, server.Client(), kubeconfig)) })
	}
}

func TestWireInAClusterWithoutEnvoyGateway(t *testing.T) {
	server, _ := startServer(t)
	w := &wired{t: t, api: server.Client()}
	NewWithT(t).Expect(w.fails("gateway/shop")).To(Equal("error: this cluster does not serve Gateway (gateway.networking.k8s.io/v1), HTTPRoute (gateway.networking.k8s.io/v1), " +
		"ReferenceGrant (gateway.networking.k8s.io/v1beta1), SecurityPolicy (gateway.envoyproxy.io/v1alpha1): install Envoy Gateway with its CRDs; docs/integrations has the other proxies\n"))
}

// newWired creates Weir's Service and the printed Gateway with its routes.
func newWired(t *testing.T, api ctrlclient.Client, kubeconfig string) *wired {
	t.Helper()
	g := NewWithT(t)
	w := &wired{t: t, api: api, kubeconfig: kubeconfig}
	w.create(weirService("weir", "grpc"))
	w.create(weirService("weir-metrics", "metrics"))
	page, err := os.ReadFile("../../docs/integrations/envoy-gateway.md")
	g.Expect(err).NotTo(HaveOccurred())
	for _, block := range testenv.CodeBlocks(string(page), "yaml") {
		if strings.Contains(block, "apiVersion:") {
			w.page = append(w.page, decodeManifests(t, block))
		}
	}
	for _, object := range w.printed("GatewayClass/envoy") {
		w.create(object.DeepCopy())
	}
	return w
}

func weirService(name, port string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: name, Labels: map[string]string{"app.kubernetes.io/part-of": "weir"}},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: port, Port: 8081}}},
	}
}

// printed returns the first block of the page that has the object.
func (w *wired) printed(name string) manifests {
	w.t.Helper()
	at := slices.IndexFunc(w.page, func(m manifests) bool { return m[name] != nil })
	NewWithT(w.t).Expect(at).To(BeNumerically(">=", 0), name)
	return w.page[at]
}

// create creates the object, and deletes it when the test ends.
func (w *wired) create(object ctrlclient.Object) {
	w.t.Helper()
	createUntilEnd(w.t, w.api, object)
}

// createUntilEnd creates the object, and deletes it when the test ends.
func createUntilEnd(t *testing.T, api ctrlclient.Client, object ctrlclient.Object) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(api.Create(t.Context(), object)).To(Succeed(), object.GetName())
	t.Cleanup(func() {
		g.Expect(api.Delete(context.WithoutCancel(t.Context()), object, ctrlclient.GracePeriodSeconds(0))).To(Succeed(), object.GetName())
	})
}

// make creates the object of the manifest.
func (w *wired) make(manifest string) {
	w.t.Helper()
	for _, object := range decodeManifests(w.t, manifest) {
		w.create(object)
	}
}

// run runs the command and returns the manifests, which the API server accepts, and the notes.
func (w *wired) run(args ...string) (m manifests, notes string) {
	w.t.Helper()
	g := NewWithT(w.t)
	code, out, notes := command(w.t, append([]string{"wire"}, args...)...)
	g.Expect(code).To(Equal(0), notes)
	m = decodeManifests(w.t, out)
	for name, object := range m {
		g.Expect(w.api.Apply(w.t.Context(), ctrlclient.ApplyConfigurationFromUnstructured(object.DeepCopy()),
			ctrlclient.FieldOwner("test"), ctrlclient.ForceOwnership, ctrlclient.DryRunAll)).To(Succeed(), name)
	}
	return m, notes
}

// fails runs the command, which fails, and returns the error.
func (w *wired) fails(args ...string) string {
	w.t.Helper()
	code, out, complaint := command(w.t, append([]string{"wire"}, args...)...)
	NewWithT(w.t).Expect(code).To(Equal(1), out)
	NewWithT(w.t).Expect(out).To(BeEmpty())
	return complaint
}

// The page of Envoy Gateway was run as printed. The command prints the same.
func wirePrintsThePage(t *testing.T, w *wired) {
	t.Helper()
	g := NewWithT(t)

	route, notes := w.run("httproute/shop", "-n", "shop")
	g.Expect(notes).To(BeEmpty())
	want := w.printed("ReferenceGrant/weir-shop")
	g.Expect(want).To(HaveLen(2))
	for name, object := range want {
		g.Expect(route[name]).To(Equal(object), name)
	}
	g.Expect(route).To(HaveLen(3))
	page, err := os.ReadFile("../../docs/integrations/envoy-gateway.md")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(page)).To(ContainSubstring("kubectl label namespace envoy-gateway-system ratelimit.weir.dev/client=true"))
	g.Expect(string(page)).To(ContainSubstring("```sh\nkubectl weir wire httproute/shop -n shop\n```"))
	g.Expect(route["Namespace/envoy-gateway-system"].GetLabels()).To(Equal(map[string]string{"ratelimit.weir.dev/client": "true"}))

	short, _ := w.run("route/shop", "-n", "shop", "--envoy-namespace", "envoy-gateway-system", "--service", "weir")
	g.Expect(short).To(Equal(route))

	merging := w.printed("SecurityPolicy/assets")["SecurityPolicy/assets"]
	own := merging.DeepCopy()
	unstructured.RemoveNestedField(own.Object, "spec", "mergeType")
	w.create(own.DeepCopy())
	gateway, notes := w.run("gateway/shop", "-n", "shop")
	g.Expect(notes).To(BeEmpty())
	g.Expect(gateway["SecurityPolicy/assets"]).To(Equal(merging))
	at := slices.IndexFunc(w.page, func(m manifests) bool { return len(m) == 1 && m["SecurityPolicy/weir"] != nil })
	g.Expect(at).To(BeNumerically(">=", 0))
	wanted := w.page[at]["SecurityPolicy/weir"]
	settings, found, err := unstructured.NestedFieldCopy(route["SecurityPolicy/weir"].Object, "spec", "extAuth", "grpc", "backendSettings")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(BeTrue())
	g.Expect(unstructured.SetNestedField(wanted.Object, settings, "spec", "extAuth", "grpc", "backendSettings")).To(Succeed())
	g.Expect(gateway["SecurityPolicy/weir"]).To(Equal(wanted))
	g.Expect(gateway).To(HaveLen(4))

	code, out, complaint := command(t, "wire", "gateway/shop", "-n", "shop", "-o", "json")
	g.Expect(code).To(Equal(0), complaint)
	list := &unstructured.UnstructuredList{}
	g.Expect(json.Unmarshal([]byte(out), list)).To(Succeed())
	g.Expect(list.Items).To(HaveLen(4))
}

func wireWithOtherPolicies(t *testing.T, w *wired) {
	t.Helper()
	g := NewWithT(t)
	const header = "apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\n"
	extAuth := func(p *unstructured.Unstructured) map[string]any {
		fields, _, err := unstructured.NestedMap(p.Object, "spec", "extAuth")
		g.Expect(err).NotTo(HaveOccurred())
		return fields
	}

	w.make(header + `metadata: {name: cors, namespace: shop, labels: {team: shop}}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: shop, sectionName: http}]
  cors: {allowOrigins: ["https://shop.example"]}
`)
	listener, _ := w.run("gateway/shop/http", "-n", "shop", "--timeout", "20ms", "--fail-open=false")
	completed := listener["SecurityPolicy/cors"]
	g.Expect(completed.GetLabels()).To(Equal(map[string]string{"team": "shop"}), "the existing one is completed")
	g.Expect(completed.GetResourceVersion()).To(BeEmpty())
	g.Expect(extAuth(completed)).To(And(HaveKeyWithValue("timeout", "20ms"), HaveKeyWithValue("failOpen", false)))
	g.Expect(extAuth(completed)["contextExtensions"]).To(ConsistOf(map[string]any{"name": "weir.gateway", "type": "Value", "value": "shop/shop/http"}))
	_, found, _ := unstructured.NestedMap(completed.Object, "spec", "cors")
	g.Expect(found).To(BeTrue())

	// The values of a SecurityPolicy that asks Weir stay, unless a flag replaces them.
	w.create(w.printed("ReferenceGrant/weir-shop")["SecurityPolicy/weir"].DeepCopy())
	again, _ := w.run("httproute/shop", "-n", "shop", "--timeout", "1.5s")
	g.Expect(extAuth(again["SecurityPolicy/weir"])).To(And(HaveKeyWithValue("timeout", "1s500ms"), HaveKeyWithValue("failOpen", true)))
	gateway, notes := w.run("gateway/shop", "-n", "shop", "--name", "weir-all")
	g.Expect(gateway).To(HaveKey("SecurityPolicy/weir-all"))
	g.Expect(notes).To(Equal("note: SecurityPolicy shop/weir sends checks of HTTPRoute shop/shop to Weir itself: policies with the Gateway in targetRefs apply only if it names the Gateway\n"))
	g.Expect(w.fails("gateway/shop", "-n", "shop")).To(ContainSubstring("--name: SecurityPolicy shop/weir has other targets; choose another name"))

	// Another service has the extAuth of a route, which a selector finds.
	assets := &unstructured.Unstructured{}
	assets.SetGroupVersionKind(schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "HTTPRoute"})
	g.Expect(w.api.Get(t.Context(), ctrlclient.ObjectKey{Namespace: "shop", Name: "assets"}, assets)).To(Succeed())
	assets.SetLabels(map[string]string{"team": "assets"})
	g.Expect(w.api.Update(t.Context(), assets)).To(Succeed())
	w.make(header + `metadata: {name: login, namespace: shop}
spec:
  targetSelectors: [{kind: HTTPRoute, matchLabels: {team: assets}}]
  extAuth: {http: {backendRefs: [{name: login, port: 80}]}}
`)
	_, notes = w.run("gateway/shop", "-n", "shop", "--name", "weir-all")
	g.Expect(notes).To(ContainSubstring("note: SecurityPolicy shop/login sends checks of HTTPRoute shop/assets to another service, and extAuth takes one: let that service, a proxy in front"))
	g.Expect(w.fails("route/assets", "-n", "shop", "--name", "a")).To(ContainSubstring("SecurityPolicy shop/login selects the target by its labels"))
}

func wireNamesWhatIsMissing(t *testing.T, w *wired) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(w.fails("gateway/nonesuch", "-n", "shop")).To(HavePrefix("error: no Gateway nonesuch in Namespace shop: "))
	g.Expect(w.fails("route/nonesuch", "-n", "shop")).To(HavePrefix("error: no HTTPRoute or GRPCRoute nonesuch in Namespace shop: "))
	g.Expect(w.fails("gateway/shop", "-n", "shop", "--weir-namespace", "infra")).
		To(ContainSubstring("no Service of Weir in infra has a port grpc: if Weir runs elsewhere, set --weir-namespace"))
	w.create(weirService("edge-weir", "grpc"))
	g.Expect(w.fails("gateway/shop", "-n", "shop")).To(ContainSubstring("the Services edge-weir, weir in weir-system have a port grpc: choose one with --service"))
	edge, _ := w.run("gateway/shop", "-n", "shop", "--service", "edge-weir")
	g.Expect(edge).To(HaveKey("ReferenceGrant/edge-weir-shop"))
}

// A route of another Namespace than its Gateway must not name the Gateway.
func wireAcrossNamespaces(t *testing.T, w *wired) {
	t.Helper()
	g := NewWithT(t)
	w.make(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: infra}
spec:
  gatewayClassName: other
  listeners: [{name: http, protocol: HTTP, port: 80, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: shop}
spec:
  parentRefs: [{name: public, namespace: infra, sectionName: http}]
  rules: [{name: checkout, backendRefs: [{name: cart, port: 8080}]}]
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: SecurityPolicy
metadata: {name: checkout, namespace: shop}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart, sectionName: checkout}]
  cors: {allowOrigins: ["https://shop.example"]}
---
apiVersion: v1
kind: Pod
metadata:
  name: envoy
  namespace: infra
  labels: {gateway.envoyproxy.io/owning-gateway-name: public, gateway.envoyproxy.io/owning-gateway-namespace: infra}
spec: {containers: [{name: envoy, image: envoy}]}
`)
	gateway, notes := w.run("gateway/public", "-n", "infra")
	g.Expect(notes).To(HavePrefix("note: GatewayClass other: "))
	g.Expect(gateway).To(And(HaveLen(4), HaveKey("SecurityPolicy/weir"), HaveKey("ReferenceGrant/weir-infra"), HaveKey("Namespace/infra"), HaveKey("SecurityPolicy/checkout")))
	merge, _, _ := unstructured.NestedString(gateway["SecurityPolicy/checkout"].Object, "spec", "mergeType")
	g.Expect(merge).To(Equal("StrategicMerge"))

	route, notes := w.run("route/cart", "-n", "shop")
	g.Expect(notes).To(And(
		ContainSubstring("the SecurityPolicy names no Gateway, because the route has several or one of another Namespace"),
		ContainSubstring("SecurityPolicy shop/checkout replaces this one for rule checkout: kubectl weir wire httproute/cart/checkout wires it"),
	))
	_, found, _ := unstructured.NestedSlice(route["SecurityPolicy/weir"].Object, "spec", "extAuth", "contextExtensions")
	g.Expect(found).To(BeFalse())
}

// A developer of one Namespace gets the manifests, with notes about what was not read.
func wireWithFewRights(t *testing.T, w *wired) {
	t.Helper()
	g := NewWithT(t)
	w.make(`apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: dev, namespace: shop}
rules:
- {apiGroups: [gateway.networking.k8s.io], resources: [gateways, httproutes, grpcroutes], verbs: [get, list]}
- {apiGroups: [gateway.envoyproxy.io], resources: [securitypolicies], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: dev, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: dev}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dev}]
`)
	g.Eventually(func() int { code, _, _ := command(t, "wire", "gateway/shop", "-n", "shop", "--as", "dev"); return code }, timeout).Should(Equal(0))
	few, notes := w.run("gateway/shop", "-n", "shop", "--as", "dev")
	g.Expect(notes).To(And(
		ContainSubstring("you may not list objects of kind HTTPRoute in all Namespaces: only shop is considered"),
		ContainSubstring("you may not list objects of kind SecurityPolicy in all Namespaces: only shop is considered"),
		ContainSubstring("GatewayClass envoy: "), ContainSubstring("you may not list pods: if Envoy runs in another Namespace than envoy-gateway-system, set --envoy-namespace"),
		ContainSubstring("you may not list Services in weir-system: weir is assumed"),
	))
	all, _ := w.run("gateway/shop", "-n", "shop")
	g.Expect(few).To(Equal(all))
	g.Expect(w.fails("gateway/shop", "-n", "infra", "--as", "dev")).To(ContainSubstring("forbidden"))
}

// In the Namespace of Weir no ReferenceGrant is needed. Weir with TLS needs a BackendTLSPolicy.
func wireBesideWeir(t *testing.T, w *wired) {
	t.Helper()
	g := NewWithT(t)
	secure := weirService("secure", "grpc")
	secure.Spec.Ports = append(secure.Spec.Ports, corev1.ServicePort{Name: "http", Port: 8080, AppProtocol: new("https")})
	w.create(secure)
	w.make(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: own, namespace: weir-system}
spec:
  gatewayClassName: envoy
  listeners: [{name: http, protocol: HTTP, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: calls, namespace: weir-system}
spec:
  parentRefs: [{name: own}]
  rules: [{backendRefs: [{name: calls, port: 8080}]}]
`)
	for _, target := range []string{"gateway/own", "grpcroute/calls", "route/calls"} {
		m, notes := w.run(target, "-n", "weir-system", "--service", "secure")
		g.Expect(notes).To(Equal("note: Weir serves TLS: Envoy also needs a BackendTLSPolicy for Service secure in weir-system\n"))
		g.Expect(m).To(And(HaveLen(2), HaveKey("Namespace/envoy-gateway-system")), target)
		refs, _, err := unstructured.NestedSlice(m["SecurityPolicy/weir"].Object, "spec", "extAuth", "grpc", "backendRefs")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(refs).To(Equal([]any{map[string]any{"name": "secure", "port": float64(8081)}}))
	}
}
