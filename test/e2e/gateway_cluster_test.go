// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

const (
	// gatewayNamespace is the Namespace of Envoy Gateway and of its Envoys.
	gatewayNamespace = "envoy-gateway-system"
	gatewayPage      = root + "/docs/integrations/envoy-gateway.md"
)

// gateway is an installation of Weir with the names of the documentation, behind an Envoy of Envoy Gateway.
type gateway struct {
	*installation
	page    string // the documentation
	host    string // of the requests
	address string // of Envoy
	clients int    // that newClient returned
}

// installGateway installs Envoy Gateway and Weir, and applies what the page prints up to the policy.
func installGateway(ctx SpecContext) *gateway {
	GinkgoHelper()
	needsClusterWithoutWeir(ctx)
	Expect(kubectl(ctx, "get", "crd", "gateways.gateway.networking.k8s.io", "--ignore-not-found", "--output=name")).
		To(BeEmpty(), "there is a Gateway API on this cluster: the tests would delete it")
	page, err := os.ReadFile(gatewayPage)
	Expect(err).NotTo(HaveOccurred())
	g := &gateway{page: string(page), host: "shop.example", installation: &installation{namespace: "weir-system", shop: "shop"}}
	for _, namespace := range []string{g.namespace, g.shop, gatewayNamespace} {
		createNamespace(ctx, namespace)
	}
	DeferCleanup(g.remove, NodeTimeout(5*time.Minute)) // runs before the Namespaces are deleted
	g.installEnvoyGateway(ctx)
	g.deploy(ctx)
	apply(ctx, g.shop, "upstream.yaml", map[string]string{"image": clientImage, "name": "shop"})
	g.applyPrinted(ctx, "kind: GatewayClass")
	for line := range strings.Lines(g.block("sh", "kubectl label")) {
		command := strings.Fields(line)
		tool(ctx, command[0], append(command[1:], "--overwrite")...)
	}
	rolledOut(ctx, g.shop, "shop")
	kubectl(ctx, "wait", "--namespace", g.shop, "--for=condition=Programmed", "--timeout=120s", "gateway/shop")
	g.address = kubectl(ctx, "get", "gateway", "shop", "--namespace", g.shop, "--output=jsonpath={.status.addresses[0].value}")
	return g
}

// installEnvoyGateway installs the chart that hack/gateway/build.sh has prepared, with the printed values.
func (g *gateway) installEnvoyGateway(ctx SpecContext) {
	GinkgoHelper()
	if localCluster != "" {
		loadImages(ctx, filepath.Join(envoyGateway(), "envoy-gateway.tar"), filepath.Join(envoyGateway(), "envoy.tar"))
	}
	_, err := tryTool(ctx, g.printed("filterOrder:"), "helm", "install", "envoy-gateway", filepath.Join(envoyGateway(), "chart"),
		"--namespace", gatewayNamespace, "--wait", "--timeout", "240s", "--values", "-",
		"--set", "global.images.envoyGateway.image="+envoyGatewayImage,
		"--set", "global.images.envoyProxy.image="+envoyImage,
		"--set", "topologyInjector.enabled=false",
		"--set", "config.envoyGateway.envoyProxy.provider.type=Kubernetes",
		// A LoadBalancer would wait for an address.
		"--set", "config.envoyGateway.envoyProxy.provider.kubernetes.envoyService.type=ClusterIP")
	Expect(err).NotTo(HaveOccurred())
}

// envoyGateway returns the folder that hack/gateway/build.sh fills.
func envoyGateway() string {
	GinkgoHelper()
	dir := os.Getenv("ENVOY_GATEWAY_DIR")
	Expect(dir).NotTo(BeEmpty(), "the folder of Envoy Gateway: run `make e2e`")
	return dir
}

// remove removes the cluster-scoped objects. Envoy Gateway is the last: it removes the finalizer of the GatewayClass.
func (g *gateway) remove(ctx SpecContext) {
	if CurrentSpecReport().Failed() {
		show(ctx, gatewayNamespace)
		show(ctx, g.shop)
	}
	kubectl(ctx, "delete", "namespace", g.shop, "--ignore-not-found", "--timeout=120s")
	if _, err := tryKubectl(ctx, "get", "crd", "gatewayclasses.gateway.networking.k8s.io"); err == nil {
		kubectl(ctx, "delete", "gatewayclass", "envoy", "--ignore-not-found", "--timeout=120s")
	}
	g.installation.remove(ctx)
	tool(ctx, "helm", "uninstall", "envoy-gateway", "--namespace", gatewayNamespace, "--ignore-not-found", "--wait", "--timeout", "240s")
	kubectl(ctx, "delete", "--filename", filepath.Join(envoyGateway(), "chart", "charts", "crds", "crds"), "--recursive", "--ignore-not-found", "--timeout=120s")
	// An Envoy may take six minutes to end.
	kubectl(ctx, "delete", "pods", "--all", "--namespace", gatewayNamespace, "--force", "--grace-period=0")
	for _, namespace := range []string{g.namespace, gatewayNamespace} {
		kubectl(ctx, "delete", "namespace", namespace, "--ignore-not-found", "--timeout=120s")
	}
}

// block returns the only code block of the page in the language that has the text.
func (g *gateway) block(language, text string) string {
	GinkgoHelper()
	var found []string
	for _, block := range testenv.CodeBlocks(g.page, language) {
		if strings.Contains(block, text) {
			found = append(found, block)
		}
	}
	Expect(found).To(HaveLen(1), "blocks with %q", text)
	return found[0]
}

func (g *gateway) printed(text string) string {
	GinkgoHelper()
	return g.block("yaml", text)
}

// applyPrinted applies the manifest of the page that has the text.
func (g *gateway) applyPrinted(ctx context.Context, text string) {
	GinkgoHelper()
	g.apply(ctx, g.printed(text))
}

// applyPatient applies a SecurityPolicy of the page with longer timeouts. Where Weir always answers, a pause of a busy
// machine must not let Envoy decide.
func (g *gateway) applyPatient(ctx context.Context, text string) {
	GinkgoHelper()
	g.apply(ctx, strings.NewReplacer("timeout: 100ms", "timeout: 5s", "maxInterval: 100ms", "maxInterval: 5s").Replace(g.printed(text)))
	g.translated(ctx)
}

// translated waits until Envoy Gateway has translated the SecurityPolicy of Weir.
func (g *gateway) translated(ctx context.Context) {
	GinkgoHelper()
	Eventually(func(o Gomega) {
		out, err := tryKubectl(ctx, "get", "securitypolicy", "weir", "--namespace", g.shop, "--output",
			`jsonpath={.metadata.generation} {.status.ancestors[0].conditions[?(@.type=="Accepted")].observedGeneration}`)
		o.Expect(err).NotTo(HaveOccurred())
		generation, observed, _ := strings.Cut(out, " ")
		o.Expect(observed).To(Equal(generation))
	}).WithContext(ctx).Should(Succeed())
}

func (*gateway) apply(ctx context.Context, manifest string) {
	GinkgoHelper()
	_, err := tryTool(ctx, manifest, "kubectl", "apply", "--filename", "-")
	Expect(err).NotTo(HaveOccurred())
}

// newClient returns a header that makes a request one of another client.
func (g *gateway) newClient() string {
	g.clients++
	return fmt.Sprintf("X-Forwarded-For: 198.51.%d.%d", g.clients/250, g.clients%250+1)
}

// request returns arguments of the client for a request through Envoy.
func (g *gateway) request(path string, headers ...string) []string {
	args := []string{"-method", http.MethodGet, "-timeout", "30s"}
	for _, header := range append(headers, "Host: "+g.host) {
		args = append(args, "-header", header)
	}
	return append(args, "http://"+g.address+path)
}

// get sends a request through Envoy.
func (g *gateway) get(ctx context.Context, path string, headers ...string) (got answer) {
	GinkgoHelper()
	Expect(g.asker.run(ctx, &got, append([]string{"http"}, g.request(path, headers...)...)...)).To(Succeed())
	return got
}

// statusOf sends a request of a new client through Envoy, and returns the status.
func (g *gateway) statusOf(ctx context.Context, path string) int {
	GinkgoHelper()
	return g.get(ctx, path, g.newClient()).Status
}

// load sends requests of one client at a steady rate.
func (g *gateway) load(ctx context.Context, rate int, length time.Duration) (got load, err error) {
	args := append([]string{"load", "-rate", strconv.Itoa(rate), "-duration", length.String()}, g.request("/", g.newClient())...)
	err = g.asker.run(ctx, &got, args...)
	return got, err
}

// limited reports whether Envoy sends a check for requests to the path.
func (g *gateway) limited(ctx context.Context, path string) bool {
	GinkgoHelper()
	got := g.get(ctx, path, g.newClient())
	return got.Status == http.StatusOK && got.Headers.Get("RateLimit") != ""
}

// checked waits until Envoy sends checks for requests to the path, unchecked until it sends none.
func (g *gateway) checked(ctx context.Context, path string) {
	GinkgoHelper()
	Eventually(g.limited).WithArguments(ctx, path).Should(BeTrue(), "Weir's headers for %s", path)
}

func (g *gateway) unchecked(ctx context.Context, path string) {
	GinkgoHelper()
	Eventually(g.limited).WithArguments(ctx, path).Should(BeFalse(), "no headers of Weir for %s", path)
	Expect(g.statusOf(ctx, path)).To(Equal(http.StatusOK))
}

// signed returns a set of keys, and a header with a JWT that one of them signed.
func signed(claims map[string]string) (keys, header string) {
	GinkgoHelper()
	encode := func(value any) string {
		text, err := json.Marshal(value)
		Expect(err).NotTo(HaveOccurred())
		return base64.RawURLEncoding.EncodeToString(text)
	}
	const secret = "a key that only the tests use, long enough"
	keys = `{"keys":[{"kty":"oct","kid":"k","alg":"HS256","k":"` + base64.RawURLEncoding.EncodeToString([]byte(secret)) + `"}]}`
	token := encode(map[string]string{"alg": "HS256", "kid": "k"}) + "." + encode(claims)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(token)) // a hash returns no error
	return keys, "Authorization: Bearer " + token + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// failOpen edits the SecurityPolicy.
func (g *gateway) failOpen(ctx context.Context, open bool) {
	GinkgoHelper()
	kubectl(ctx, "patch", "securitypolicy", "weir", "--namespace", g.shop, "--type=merge",
		"--patch", fmt.Sprintf(`{"spec":{"extAuth":{"failOpen":%t}}}`, open))
}

// accepted returns the condition Accepted of the SecurityPolicy.
func (g *gateway) accepted(ctx context.Context, name string) (string, error) {
	return g.securityCondition(ctx, name, "Accepted")
}

// securityCondition returns status, reason and message of a condition of the SecurityPolicy.
func (g *gateway) securityCondition(ctx context.Context, name, kind string) (string, error) {
	return tryKubectl(ctx, "get", "securitypolicy", name, "--namespace", g.shop, "--output",
		fmt.Sprintf(`jsonpath={range .status.ancestors[*].conditions[?(@.type=="%s")]}{.status}/{.reason}/{.message}{"\n"}{end}`, kind))
}

// whileFrozen stops the processes of Weir while a function runs, on a cluster of this machine only.
func (g *gateway) whileFrozen(ctx SpecContext, do func()) {
	GinkgoHelper()
	if localCluster == "" {
		Skip("the containers are on another machine")
	}
	containers := func() []string {
		return strings.Fields(kubectl(ctx, "get", "pods", "--namespace", g.namespace, "--selector=ratelimit.weir.dev/decisions=true",
			"--output=jsonpath={range .items[*]}{.status.containerStatuses[0].containerID} {end}"))
	}
	Eventually(containers).Should(HaveLen(2), "the former pods are gone")
	frozen := containers()
	all := func(command string) {
		for _, container := range frozen {
			tool(ctx, "ctr", "--address", filepath.Join(localCluster, "containerd.sock"), "--namespace", "k8s.io",
				"tasks", command, strings.TrimPrefix(container, "containerd://"))
		}
	}
	all("pause")
	defer all("resume")
	do()
}
