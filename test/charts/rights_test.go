// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const aggregate = "rbac.authorization.k8s.io/aggregate-to-"

func TestPodsAreRestricted(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *WithT, m manifests) {
		t.Helper()
		deployments := of[appsv1.Deployment](t, m, "Deployment")
		g.Expect(deployments).NotTo(BeEmpty())
		for _, deployment := range deployments {
			pod := deployment.Spec.Template.Spec
			g.Expect(*pod.SecurityContext.RunAsNonRoot).To(BeTrue())
			g.Expect(pod.SecurityContext.SeccompProfile.Type).To(Equal(corev1.SeccompProfileTypeRuntimeDefault))
			g.Expect(pod.HostNetwork || pod.HostPID || pod.HostIPC).To(BeFalse())
			for _, container := range pod.Containers {
				g.Expect(*container.SecurityContext.AllowPrivilegeEscalation).To(BeFalse())
				g.Expect(*container.SecurityContext.ReadOnlyRootFilesystem).To(BeTrue())
				g.Expect(container.SecurityContext.Capabilities.Drop).To(Equal([]corev1.Capability{"ALL"}))
				g.Expect(container.Resources.Requests).To(HaveKey(corev1.ResourceMemory))
				if container.Name == "weir" {
					g.Expect(*pod.SecurityContext.RunAsUser).To(BeEquivalentTo(65532))
				}
			}
		}
	})
}

// No RBAC rule has wildcards or grants access to Secrets of other Namespaces.
func TestRulesAreNarrow(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *WithT, m manifests) {
		t.Helper()
		for _, role := range of[rbacv1.ClusterRole](t, m, "ClusterRole") {
			for _, rule := range role.Rules {
				g.Expect(strings.Join(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), " ")).NotTo(ContainSubstring("*"))
				g.Expect(rule.Resources).NotTo(ContainElement("secrets"), role.Name)
			}
		}
		for _, role := range of[rbacv1.Role](t, m, "Role") {
			if strings.HasSuffix(role.Name, "-policies") {
				g.Expect(role.Namespace).To(BeElementOf("shop", "bank"))
			} else {
				g.Expect(role.Namespace).To(Equal("weir-system"))
			}
			for _, rule := range role.Rules {
				g.Expect(strings.Join(slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs), " ")).NotTo(ContainSubstring("*"))
				if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.Verbs, []string{"create"}) {
					g.Expect(rule.ResourceNames).To(Equal([]string{"weir-webhook"}))
					g.Expect(rule.Verbs).To(Equal([]string{"get", "update"}))
				}
			}
		}
	})
}

// lines returns the rules as "<verbs> <group>/<resource> <names>".
func lines(rules []rbacv1.PolicyRule) (all []string) {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			all = append(all, strings.TrimSpace(strings.Join(rule.Verbs, ",")+" "+rule.APIGroups[0]+"/"+resource+" "+strings.Join(rule.ResourceNames, ",")))
		}
	}
	return all
}

func TestHalvesHaveOnlyTheirPermissions(t *testing.T) {
	g := NewWithT(t)
	rights := func(values ...string) map[string][]string {
		m := render(t, "weir", append([]string{redisURL}, values...)...)
		all := map[string][]string{}
		for _, role := range of[rbacv1.ClusterRole](t, m, "ClusterRole") {
			all[role.Name] = lines(role.Rules)
		}
		for _, role := range of[rbacv1.Role](t, m, "Role") {
			all["in weir-system: "+role.Name] = lines(role.Rules)
		}
		return all
	}
	split := rights("split.enabled=true")
	reviews := []string{"create authentication.k8s.io/tokenreviews", "create authorization.k8s.io/subjectaccessreviews"}
	g.Expect(split["weir-decision"]).To(Equal(reviews))
	namespace := "get /namespaces weir-system"
	g.Expect(split["in weir-system: weir-decision"]).To(Equal([]string{namespace}))
	g.Expect(split["weir-controller"]).To(ContainElement(reviews[1]), "the webhook checks whom callers may impersonate")
	g.Expect(split["weir-controller"]).NotTo(ContainElement(reviews[0]))
	g.Expect(append(split["weir-controller"], reviews[0])).To(ConsistOf(rights()["weir-manager"]))
	g.Expect(rights("split.enabled=true", "webhook.enabled=false")["weir-controller"]).NotTo(ContainElement(reviews[1]))
	g.Expect(split["in weir-system: weir-controller"]).To(Equal(rights()["in weir-system: weir-manager"]))

	// Without an issued certificate its permissions are not needed.
	for _, values := range []string{"webhook.enabled=false", "webhook.certManager.enabled=true"} {
		g.Expect(rights(values)["in weir-system: weir-manager"]).To(Equal([]string{
			namespace, "create coordination.k8s.io/leases", "get,update coordination.k8s.io/leases weir-manager",
		}))
		g.Expect(rights(values)["weir-manager"]).NotTo(ContainElement(ContainSubstring("admissionregistration")))
	}
}

func TestGatewayAPIIsReadByValue(t *testing.T) {
	g := NewWithT(t)
	rights := func(values ...string) (all []string) {
		m := render(t, "weir", append(values, redisURL)...)
		for _, role := range of[rbacv1.ClusterRole](t, m, "ClusterRole") {
			all = append(all, lines(role.Rules)...)
		}
		for _, role := range of[rbacv1.Role](t, m, "Role") {
			all = append(all, lines(role.Rules)...)
		}
		return all
	}
	reads := ContainElement(MatchRegexp(`gateway\.(networking\.k8s|envoyproxy)\.io`))
	g.Expect(rights()).To(reads)
	g.Expect(rights("gatewayAPI.enabled=false")).NotTo(reads)
	watched := variants["watched Namespaces"]
	g.Expect(rights(watched...)).To(reads)
	g.Expect(rights(append(slices.Clone(watched), "gatewayAPI.enabled=false")...)).NotTo(reads)
}

// With watched Namespaces, an owner of Namespaces can install the chart.
func TestWatchedNamespacesNeedNoClusterPermissions(t *testing.T) {
	g := NewWithT(t)
	m := render(t, "weir", variants["watched Namespaces"]...)
	for _, object := range m {
		g.Expect(object.GetNamespace()).NotTo(BeEmpty(), id(object))
	}
	got := map[string][]string{}
	for _, role := range of[rbacv1.Role](t, m, "Role") {
		got[role.Namespace+"/"+role.Name] = lines(role.Rules)
	}
	in := func(namespace string) []string {
		return []string{
			"get /namespaces " + namespace, "create,patch events.k8s.io/events",
			"get,list,watch gateway.envoyproxy.io/securitypolicies", "get,list,watch gateway.networking.k8s.io/gateways",
			"get,list,watch gateway.networking.k8s.io/grpcroutes", "get,list,watch gateway.networking.k8s.io/httproutes",
			"get,list,watch ratelimit.weir.dev/ratelimitexceptions", "get,list,watch ratelimit.weir.dev/ratelimitkeygroups", "get,list,watch ratelimit.weir.dev/ratelimitpolicies",
			"patch ratelimit.weir.dev/ratelimitexceptions/status", "patch ratelimit.weir.dev/ratelimitkeygroups/status", "patch ratelimit.weir.dev/ratelimitpolicies/status",
		}
	}
	g.Expect(got).To(And(HaveKeyWithValue("shop/weir-controller-policies", in("shop")), HaveKeyWithValue("bank/weir-controller-policies", in("bank")),
		HaveKey("weir-system/weir-controller"), HaveKey("weir-system/weir-decision"), HaveLen(4)))
	containers := weirContainers(t, m)
	g.Expect(containers["weir-controller"].Args).To(ContainElement("--watch-namespaces=shop,bank"))
	g.Expect(containers["weir-decision"].Args).To(ContainElement("--admin-token-file=/etc/weir/admin/token"))
	g.Expect(containers["weir-controller"].VolumeMounts).NotTo(ContainElement(HaveField("Name", "admin")))
	g.Expect(of[corev1.Pod](t, m, "Pod")[0].Spec.Containers[0].Args).To(ContainElement("--policy=shop/weir-test"))
	g.Expect(m.find(t, "RateLimitPolicy/weir-test").GetNamespace()).To(Equal("shop"))

	excluding := render(t, "weir", variants["excluded Namespaces"]...)
	g.Expect(weirContainers(t, excluding)["weir-manager"].Args).To(ContainElement("--exclude-namespaces=kube-system,old"))
	hook := of[admissionregistrationv1.ValidatingWebhookConfiguration](t, excluding, "ValidatingWebhookConfiguration")[0]
	g.Expect(hook.Webhooks[0].NamespaceSelector.MatchExpressions).To(Equal([]metav1.LabelSelectorRequirement{
		{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", "old"}},
	}))
	g.Expect(of[corev1.Pod](t, render(t, "weir", redisURL, "excludeNamespaces={weir-system}"), "Pod")).To(BeEmpty(), "its policy would not be enforced")
}

func TestUserRolesAreAggregated(t *testing.T) {
	for name, tc := range map[string]struct {
		values string
		want   map[string][]string
	}{
		"Namespaces grant":     {"tenancy=Namespace", map[string][]string{"weir-view": {"view"}, "weir-edit": {"admin", "edit"}}},
		"authors are trusted":  {"tenancy=Cluster", map[string][]string{"weir-view": {"view"}}},
		"nothing is to happen": {"rbac.aggregate=false", map[string][]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := map[string][]string{}
			roles := map[string][]string{}
			for _, role := range of[rbacv1.ClusterRole](t, render(t, "weir", redisURL, tc.values), "ClusterRole") {
				roles[role.Name] = lines(role.Rules)
				for label := range role.Labels {
					if to, found := strings.CutPrefix(label, aggregate); found {
						got[role.Name] = append(got[role.Name], to)
						for _, line := range lines(role.Rules) {
							g.Expect(line).NotTo(ContainSubstring("/state"), "keys are people: no built-in role reads them")
						}
					}
				}
				slices.Sort(got[role.Name])
			}
			for role := range got {
				if got[role] == nil {
					delete(got, role)
				}
			}
			g.Expect(got).To(Equal(tc.want))
			g.Expect(roles["weir-view"]).To(Equal([]string{"get,list,watch ratelimit.weir.dev/ratelimitpolicies"}))
			g.Expect(roles["weir-inspect"]).To(Equal([]string{"get ratelimit.weir.dev/ratelimitpolicies/state"}))
			g.Expect(roles["weir-operator"]).To(Equal([]string{"get,list,create,update,delete ratelimit.weir.dev/ratelimitpolicies/state"}))
			g.Expect(roles["weir-exceptions"]).To(Equal([]string{
				"get,list,watch,create,update,patch,delete ratelimit.weir.dev/ratelimitexceptions", "get ratelimit.weir.dev/ratelimitpolicies",
			}))
			g.Expect(roles["weir-reveal"]).To(Equal([]string{"reveal ratelimit.weir.dev/ratelimitpolicies/state"}))
		})
	}
}

// ingressRules returns the ingress rules of a NetworkPolicy as "<peers> -> <ports>".
func ingressRules(policy networkingv1.NetworkPolicy) (all []string) {
	for _, rule := range policy.Spec.Ingress {
		var from, to []string
		for _, peer := range rule.From {
			switch {
			case peer.NamespaceSelector != nil && peer.NamespaceSelector.MatchLabels != nil:
				from = append(from, "namespaces "+labelsOf(peer.NamespaceSelector.MatchLabels))
			case peer.NamespaceSelector != nil:
				from = append(from, "namespaces "+strings.Join(peer.NamespaceSelector.MatchExpressions[0].Values, ","))
			case peer.IPBlock != nil:
				from = append(from, "network "+peer.IPBlock.CIDR)
			case peer.PodSelector != nil:
				from = append(from, "pods "+labelsOf(peer.PodSelector.MatchLabels))
			}
		}
		for _, port := range rule.Ports {
			to = append(to, port.Port.String())
		}
		all = append(all, strings.Join(from, " or ")+" -> "+strings.Join(to, ","))
	}
	return all
}

func labelsOf(set map[string]string) string {
	var all []string
	for key, value := range set {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

func TestNetworkPolicies(t *testing.T) {
	const clients = "namespaces ratelimit.weir.dev/client=true"
	for name, tc := range map[string]struct {
		values []string
		want   map[string][]string
	}{
		"defaults": {[]string{redisURL}, map[string][]string{
			"weir-manager": {clients + " -> http,grpc", "namespaces monitoring -> metrics", " -> webhook"},
		}},
		"without webhook and metrics": {[]string{redisURL, "webhook.enabled=false", "networkPolicy.metricsNamespaces=null"}, map[string][]string{
			"weir-manager": {clients + " -> http,grpc"},
		}},
		"split": {[]string{redisURL, "split.enabled=true", "networkPolicy.metricsNamespaces={a,b}"}, map[string][]string{
			"weir-controller": {"namespaces a,b -> metrics", " -> webhook"},
			"weir-decision":   {clients + " -> http,grpc", "namespaces a,b -> metrics"},
		}},
		"further clients": {[]string{redisURL, "networkPolicy.extraClients[0].podSelector.matchLabels.app=gateway"}, map[string][]string{
			"weir-manager": {clients + " or pods app=gateway -> http,grpc", "namespaces monitoring -> metrics", " -> webhook"},
		}},
		"bundled": {variants["bundled"], map[string][]string{
			"weir-manager": {clients + " -> http,grpc", "namespaces monitoring -> metrics", " -> webhook"},
			"weir-redis":   {"pods app.kubernetes.io/instance=weir,app.kubernetes.io/name=weir -> redis"},
		}},
		"networks of API servers": {[]string{redisURL, "webhook.clientCIDRs={192.0.2.0/24,2001:db8::/64}"}, map[string][]string{
			"weir-manager": {clients + " -> http,grpc", "namespaces monitoring -> metrics", "network 192.0.2.0/24 or network 2001:db8::/64 -> webhook"},
		}},
		"none": {[]string{redisURL, "networkPolicy.enabled=false"}, map[string][]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := map[string][]string{}
			for _, policy := range of[networkingv1.NetworkPolicy](t, render(t, "weir", tc.values...).installed(), "NetworkPolicy") {
				got[policy.Name] = ingressRules(policy)
				g.Expect(policy.Spec.PolicyTypes).To(ContainElement(networkingv1.PolicyTypeIngress))
			}
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

func TestEgressIsOpenByDefault(t *testing.T) {
	g := NewWithT(t)
	policy := func(values ...string) networkingv1.NetworkPolicy {
		return of[networkingv1.NetworkPolicy](t, render(t, "weir", append(values, redisURL)...), "NetworkPolicy")[0]
	}
	g.Expect(policy().Spec.PolicyTypes).To(Equal([]networkingv1.PolicyType{networkingv1.PolicyTypeIngress}))
	closed := policy("networkPolicy.egress[0].ports[0].port=6379")
	g.Expect(closed.Spec.PolicyTypes).To(ContainElement(networkingv1.PolicyTypeEgress))
	g.Expect(closed.Spec.Egress).To(HaveLen(1))
}
