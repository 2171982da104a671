// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const taskPage = root + "/docs/tasks/gateway-api.md"

// task is the walk of docs/tasks/gateway-api.md.
type task struct {
	*gateway
	plugin *plugin
}

// startTask applies the page up to the routes.
func startTask(ctx SpecContext, g *gateway) *task {
	GinkgoHelper()
	page, err := os.ReadFile(taskPage)
	Expect(err).NotTo(HaveOccurred())
	t := &task{gateway: &gateway{
		page: string(page), host: "store.example", installation: &installation{namespace: g.namespace, shop: "store", asker: g.asker},
	}}
	t.plugin = newPlugin(t.installation)
	for _, namespace := range []string{"infra", t.shop} {
		createNamespace(ctx, namespace)
	}
	apply(ctx, t.shop, "upstream.yaml", map[string]string{"image": clientImage, "name": "store"})
	t.applyPrinted(ctx, "kind: GatewayClass")
	rolledOut(ctx, t.shop, "store")
	kubectl(ctx, "wait", "--namespace", "infra", "--for=condition=Programmed", "--timeout=120s", "gateway/public")
	t.address = kubectl(ctx, "get", "gateway", "public", "--namespace", "infra", "--output=jsonpath={.status.addresses[0].value}")
	return t
}

// command returns the arguments of the only printed command that begins with the text, with the address of the Gateway.
func (t *task) command(text string) []string {
	GinkgoHelper()
	found := regexp.MustCompile("(?m)^"+regexp.QuoteMeta(text)+".*$").FindAllString(t.block("sh", text), -1)
	Expect(found).To(HaveLen(1), text)
	command, _, _ := strings.Cut(strings.ReplaceAll(found[0], "$address", t.address), " > ")
	var args []string
	for _, quoted := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(command, -1) {
		args = append(args, strings.Trim(quoted, "'"))
	}
	return args
}

// weir runs the printed command of kubectl weir that begins with the text.
func (t *task) weir(ctx context.Context, text string) (string, error) {
	GinkgoHelper()
	args := t.command("kubectl weir " + text)[2:]
	return tryTool(ctx, "", t.plugin.path, append(args, "--weir-namespace="+t.namespace)...)
}

// wired returns status, reason and message of the condition Wired.
func (t *task) wired(ctx context.Context, namespace, policy string) (string, error) {
	return tryKubectl(ctx, "get", "rlpol", policy, "--namespace", namespace, "--output",
		`jsonpath={range .status.conditions[?(@.type=="Wired")]}{.status}/{.reason}/{.message}{end}`)
}

// judged returns what kstatus makes of the policy.
func (t *task) judged(ctx context.Context, namespace, policy string) (status.Status, error) {
	text, err := tryKubectl(ctx, "get", "rlpol", policy, "--namespace", namespace, "--output=json")
	if err != nil {
		return "", err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(text)); err != nil { // with integers, which kstatus compares
		return "", err
	}
	result, err := status.Compute(object)
	if err != nil {
		return "", err
	}
	return result.Status, nil
}

// statuses returns the statuses of the requests, one after the other.
func (t *task) statuses(ctx context.Context, n int, path string, headers ...string) (all []int) {
	GinkgoHelper()
	for range n {
		all = append(all, t.get(ctx, path, headers...).Status)
	}
	return all
}

// applyAccounts applies the SecurityPolicy and the policy of the limit for each user, with keys of the tests.
func (t *task) applyAccounts(ctx context.Context, keys string, edits ...string) {
	GinkgoHelper()
	remote := "      remoteJWKS:\n        uri: https://accounts.example/keys.json\n"
	manifest := strings.Replace(t.printed(remote), remote, "      localJWKS: {type: Inline, inline: '"+keys+"'}\n", 1)
	t.apply(ctx, strings.NewReplacer(edits...).Replace(manifest))
}

func taskSpecs(installed func() *gateway) {
	Context("on the way of the task", Ordered, func() {
		var t *task
		allowed, denied := http.StatusOK, http.StatusTooManyRequests

		BeforeAll(func(ctx SpecContext) { t = startTask(ctx, installed()) }, NodeTimeout(10*time.Minute))

		It("limits the route that the policy names", func(ctx SpecContext) {
			manifests, err := t.weir(ctx, "wire")
			Expect(err).NotTo(HaveOccurred())
			t.apply(ctx, strings.NewReplacer("timeout: 100ms", "timeout: 5s", "maxInterval: 100ms", "maxInterval: 5s").Replace(manifests))
			t.applyPrinted(ctx, "- {group: gateway.networking.k8s.io, kind: HTTPRoute, name: checkout}\n  key:\n  - type: RemoteAddress")
			t.ready(ctx, "checkout")
			Eventually(t.wired).WithArguments(ctx, t.shop, "checkout").Should(HavePrefix("Unknown/NoTraffic/"))
			t.checked(ctx, "/checkout")
			client := t.newClient()
			Expect(t.statuses(ctx, 4, "/checkout", client)).To(Equal([]int{allowed, allowed, allowed, denied}))
			for range 5 {
				got := t.get(ctx, "/", client)
				Expect(got.Status).To(Equal(allowed))
				Expect(got.Headers).NotTo(HaveKey("Ratelimit"))
			}
			Eventually(t.wired).WithArguments(ctx, t.shop, "checkout").Should(HavePrefix("True/TrafficSeen/"))
			Eventually(t.judged).WithArguments(ctx, t.shop, "checkout").Should(Equal(status.CurrentStatus))
			access, err := t.weir(ctx, "access")
			Expect(err).NotTo(HaveOccurred())
			t.apply(ctx, access)
			Expect(t.weir(ctx, "probe")).To(ContainSubstring("HTTPRoute/store/checkout"))
		}, NodeTimeout(5*time.Minute))

		It("adds the floor of the Gateway", func(ctx SpecContext) {
			t.applyPrinted(ctx, "name: floor")
			limits := func(path string) string { return t.get(ctx, path, t.newClient()).Headers.Get("RateLimit-Policy") }
			Eventually(limits).WithArguments("/").Should(Equal(`"infra/floor-minute";q=100;w=60`))
			Expect(limits("/checkout")).To(And(ContainSubstring("infra/floor-minute"), ContainSubstring("store/checkout-burst")))
			Eventually(t.wired).WithArguments(ctx, "infra", "floor").Should(HavePrefix("True/TrafficSeen/"))
		}, NodeTimeout(5*time.Minute))

		It("reports a SecurityPolicy that bypasses it", func(ctx SpecContext) {
			keys, alice := signed(map[string]string{"iss": "https://accounts.example", "sub": "alice"})
			t.applyAccounts(ctx, keys, "  mergeType: StrategicMerge\n", "")
			Eventually(t.wired).WithArguments(ctx, t.shop, "checkout").
				Should(And(HavePrefix("False/Bypassed/"), ContainSubstring("store/accounts"), ContainSubstring("store/checkout")))
			Eventually(t.statuses).WithArguments(ctx, 5, "/checkout", alice).Should(Equal([]int{allowed, allowed, allowed, allowed, allowed}))
			Expect(t.judged(ctx, t.shop, "checkout")).To(Equal(status.CurrentStatus), "the policy itself is as it should be")
			By("limiting each user")
			t.applyAccounts(ctx, keys)
			t.ready(ctx, "checkout")
			Eventually(func() http.Header { return t.get(ctx, "/checkout", alice).Headers }).Should(HaveKey("Ratelimit"))
			// A replica that has reported traffic just before reports it again after a minute.
			Eventually(func() (string, error) {
				t.get(ctx, "/checkout", alice)
				return t.wired(ctx, t.shop, "checkout")
			}).WithContext(ctx).WithTimeout(2 * time.Minute).Should(HavePrefix("True/TrafficSeen/"))
			_, bob := signed(map[string]string{"iss": "https://accounts.example", "sub": "bob"})
			var got []int
			for n := range 4 {
				got = append(got, t.get(ctx, "/checkout", t.newClient(), bob, "X-Jwt-Sub: forged-"+strconv.Itoa(n)).Status)
			}
			Expect(got).To(Equal([]int{allowed, allowed, allowed, denied}))
			Expect(t.get(ctx, "/checkout").Status).To(Equal(http.StatusUnauthorized))
		}, NodeTimeout(5*time.Minute))

		It("lets no tenant name the Gateway of others", func(ctx SpecContext) {
			forged := fmt.Sprintf(`{"spec":{"extAuth":{"contextExtensions":[{"name":"weir.gateway","type":"Value","value":%q}]}}}`, "infra/public")
			_, err := tryKubectl(ctx, "patch", "securitypolicy", "accounts", "--namespace", t.shop, "--type=merge", "--patch", forged)
			Expect(err).To(MatchError(ContainSubstring("weir.gateway")))
		}, NodeTimeout(5*time.Minute))

		It("stands the deletion of all that policies name", Label(onlyInAll), func(ctx SpecContext) {
			kubectl(ctx, "delete", "httproute", "checkout", "--namespace", t.shop)
			Eventually(t.wired).WithArguments(ctx, t.shop, "checkout").Should(And(HavePrefix("False/TargetNotFound/"), ContainSubstring("checkout")))
			Expect(t.judged(ctx, t.shop, "checkout")).To(Equal(status.CurrentStatus))
			kubectl(ctx, "delete", "gateway", "public", "--namespace", "infra")
			Eventually(t.wired).WithArguments(ctx, "infra", "floor").Should(And(HavePrefix("False/TargetNotFound/"), ContainSubstring("public")))
			kubectl(ctx, "delete", "rlpol", "floor", "--namespace", "infra", "--timeout=120s")
			By("removing the kind of the routes")
			kubectl(ctx, "delete", "crd", "httproutes.gateway.networking.k8s.io", "--timeout=120s")
			t.applyPrinted(ctx, "- {group: gateway.networking.k8s.io, kind: HTTPRoute, name: checkout}\n  key:\n  - type: RemoteAddress")
			t.ready(ctx, "checkout")
			Expect(t.wired(ctx, t.shop, "checkout")).To(HavePrefix("False/TargetNotFound/"))
			Expect(kubectl(ctx, "get", "pods", "--namespace", t.namespace, "--selector=ratelimit.weir.dev/decisions=true",
				"--output=jsonpath={.items[*].status.containerStatuses[*].restartCount}")).To(Equal("0 0"))
			kubectl(ctx, "delete", "rlpol", "checkout", "--namespace", t.shop, "--timeout=120s")
		}, NodeTimeout(5*time.Minute))
	})
}
