// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// startInPod starts a manager to which the API server forwards the port of a pod. It returns the flag with the token of
// its operators.
func startInPod(t *testing.T, api ctrlclient.Client, kubeconfig string) (tokenFlag []string) {
	t.Helper()
	token, operator := filepath.Join(t.TempDir(), "token"), testenv.FreeAddr(t)
	NewWithT(t).Expect(os.WriteFile(token, []byte("secret\n"), 0o600)).To(Succeed())
	runManager(t, kubeconfig, "--operator-address", operator, "--admin-token-file", token)
	podOfWeir(t, api, operator)
	return []string{"--token-file", token}
}

// targetsThatExist compares targets of policies with the printed Gateway and routes.
func targetsThatExist(t *testing.T, w *wired) {
	t.Helper()
	g, token := NewWithT(t), startInPod(t, w.api, w.kubeconfig)
	policy := func(name string) *testpolicy.Builder {
		return testpolicy.Make(name).Limit("hourly", v1alpha1.AlgorithmFixedWindow, 5, "1h")
	}
	section := func(p *v1alpha1.RateLimitPolicy, name gatewayv1.SectionName) *v1alpha1.RateLimitPolicy {
		p.Spec.TargetRefs[0].SectionName = &name
		return p
	}
	for _, p := range []*v1alpha1.RateLimitPolicy{
		policy("shop/login").Target("HTTPRoute", "shop").Target("HTTPRoute", "old").Obj(),
		section(policy("shop/floor").Target("Gateway", "shop").Obj(), "http"),
		section(policy("shop/api").Target("HTTPRoute", "shop").Mode(v1alpha1.ModeShadow).Obj(), "gone"),
		policy("shop/paths").Match(v1alpha1.Match{Paths: []string{"/login"}}).Obj(),
	} {
		w.create(p)
	}
	list := func(args ...string) string {
		code, out, complaint := command(t, append(append([]string{"targets"}, args...), token...)...)
		g.Expect(code).To(Equal(0), complaint)
		g.Expect(complaint).To(BeEmpty())
		return out
	}
	const want = `TARGET                     POLICY       MODE      LAST CHECK   NOTE
Gateway/shop/shop/http     shop/floor   Enforce   never
HTTPRoute/shop/assets      -            -         -            no policy names it
HTTPRoute/shop/old         shop/login   Enforce   never        not in the cluster
HTTPRoute/shop/shop        shop/login   Enforce   never
HTTPRoute/shop/shop/gone   shop/api     Shadow    never        not in the cluster
(by matches)               shop/paths   Enforce   never
`
	g.Eventually(func() string { // fails until the manager has the policies
		_, out, _ := command(t, append([]string{"targets", "-n", "shop"}, token...)...)
		return out
	}, timeout).Should(Satisfy(func(out string) bool { return testenv.IsSameOutput(out, want) }))
	type targets struct {
		Targets []struct {
			Target string
			Exists *bool
		}
	}
	var shop, all targets
	g.Expect(json.Unmarshal([]byte(list("-n", "shop", "-o", "json")), &shop)).To(Succeed())
	g.Expect(json.Unmarshal([]byte(list("-A", "-o", "json")), &all)).To(Succeed())
	g.Expect(shop.Targets).To(HaveLen(6))
	g.Expect(all).To(Equal(shop))
}

func TestTargetsOfAClusterWithoutGatewayAPI(t *testing.T) {
	g := NewWithT(t)
	server, kubeconfig := startServer(t)
	server.CreateNamespace("shop")
	server.CreateNamespace("weir-system")
	token := startInPod(t, server.Client(), kubeconfig)
	g.Eventually(func() (all [3]any) {
		all[0], all[1], all[2] = command(t, append([]string{"targets", "-n", "shop"}, token...)...)
		return all
	}, timeout).Should(Equal([3]any{
		0, "No policy selects requests, and there are no Gateways and routes, in Namespace shop.\n",
		"note: Gateways and routes of the cluster are not listed: this cluster does not serve Gateway (gateway.networking.k8s.io/v1)\n",
	}))
}
