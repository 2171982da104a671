// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// Argo CD and Flux render without a cluster, and must get what helm installs.
func TestTemplatesDoNotReadTheCluster(t *testing.T) {
	g := NewWithT(t)
	g.Expect(filepath.WalkDir(chart+"/templates", func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			g.Expect(read(t, path)).NotTo(MatchRegexp(`\b(lookup|\.Release\.IsUpgrade|\.Release\.IsInstall|\.Release\.Revision)\b|\brand`), path)
		}
		return err
	})).To(Succeed())
}

// OpenShift sets users and groups: a null unsets the default of the chart.
func TestSecurityContextsCanBeUnset(t *testing.T) {
	g := NewWithT(t)
	m := render(t, "weir", "redis.bundled.enabled=true", "redis.bundled.image=redis:7.4",
		"podSecurityContext.runAsUser=null", "podSecurityContext.runAsGroup=null", "podSecurityContext.fsGroup=null",
		"podSecurityContext.supplementalGroups={7}", "securityContext.privileged=false", "securityContext.readOnlyRootFilesystem=null")
	pods := map[string]corev1.PodSpec{"weir-test": of[corev1.Pod](t, m, "Pod")[0].Spec}
	for _, deployment := range of[appsv1.Deployment](t, m, "Deployment") {
		pods[deployment.Name] = deployment.Spec.Template.Spec
	}
	g.Expect(pods).To(HaveLen(3))
	for name, pod := range pods {
		pod.SecurityContext.SupplementalGroups = nil
		g.Expect(pod.SecurityContext).To(Equal(&corev1.PodSecurityContext{
			RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}), name)
		g.Expect(pod.Containers[0].SecurityContext).To(Equal(&corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), Privileged: new(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}), name)
	}
	none := of[appsv1.Deployment](t, render(t, "weir", redisURL, "podSecurityContext=null", "securityContext=null"), "Deployment")[0]
	g.Expect(none.Spec.Template.Spec.SecurityContext).To(BeNil())
	g.Expect(none.Spec.Template.Spec.Containers[0].SecurityContext).To(BeNil())
}

// Every object and pod has the common labels. No selector has them, because selectors of a
// Deployment cannot be changed.
func TestCommonLabels(t *testing.T) {
	for name, values := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			m := render(t, "weir", append(values, "commonLabels.team=edge", "commonLabels.cost=low", "podLabels.cost=high")...)
			for _, object := range m {
				if object.GetName() == "of-weir" {
					continue // an extra object
				}
				want := "edge"
				if object.GetKind() == "ServiceMonitor" {
					want = "watch" // its own label wins
				}
				g.Expect(object.GetLabels()).To(HaveKeyWithValue("team", want), id(object))
				template, found, err := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "labels")
				g.Expect(err).NotTo(HaveOccurred())
				if found {
					g.Expect(template).To(HaveKeyWithValue("team", "edge"), id(object))
				}
				expectNoSelector(g, id(object), object.Object, "team")
			}
			for _, container := range []string{"weir-manager", "weir-decision"} {
				for _, deployment := range of[appsv1.Deployment](t, m, "Deployment") {
					if deployment.Name == container {
						g.Expect(deployment.Spec.Template.Labels).To(HaveKeyWithValue("cost", "high"), "podLabels win")
					}
				}
			}
		})
	}
}

// expectNoSelector expects the label in no selector of the object.
func expectNoSelector(g *WithT, path string, value any, label string) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if strings.HasSuffix(strings.ToLower(key), "selector") || key == "matchLabels" {
				g.Expect(inner).NotTo(HaveKey(label), path+"."+key)
			}
			expectNoSelector(g, path+"."+key, inner, label)
		}
	case []any:
		for _, inner := range value {
			expectNoSelector(g, path, inner, label)
		}
	}
}

func TestFurtherSettingsAreRendered(t *testing.T) {
	g := NewWithT(t)
	m := render(t, "weir", variants["everything"]...)
	m.find(t, "ConfigMap/of-weir")
	for name, container := range weirContainers(t, m) {
		g.Expect(container.VolumeMounts).To(ContainElement(corev1.VolumeMount{Name: "cache", MountPath: "/cache"}), name)
	}
	for _, deployment := range of[appsv1.Deployment](t, m, "Deployment") {
		g.Expect(deployment.Spec.Template.Spec.Volumes).To(ContainElement(HaveField("Name", "cache")))
	}
	scaler := of[autoscalingv2.HorizontalPodAutoscaler](t, m, "HorizontalPodAutoscaler")[0]
	g.Expect(*scaler.Spec.Behavior.ScaleDown.StabilizationWindowSeconds).To(BeEquivalentTo(600))
	for _, service := range of[corev1.Service](t, m, "Service") {
		g.Expect(*service.Spec.IPFamilyPolicy).To(Equal(corev1.IPFamilyPolicyPreferDualStack), service.Name)
		g.Expect(service.Spec.IPFamilies).To(Equal([]corev1.IPFamily{corev1.IPv4Protocol}), service.Name)
		if service.Name == "weir" {
			g.Expect(*service.Spec.TrafficDistribution).To(Equal("PreferClose"))
			g.Expect(service.Spec.LoadBalancerSourceRanges).To(Equal([]string{"192.0.2.0/24"}))
		} else {
			g.Expect(service.Spec.LoadBalancerSourceRanges).To(BeEmpty(), service.Name)
		}
	}
	endpoints, _, err := unstructured.NestedSlice(m.find(t, "ServiceMonitor/weir").Object, "spec", "endpoints")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(endpoints[0]).To(And(
		HaveKeyWithValue("relabelings", ConsistOf(HaveKeyWithValue("targetLabel", "cluster"))),
		HaveKeyWithValue("metricRelabelings", ConsistOf(HaveKeyWithValue("action", "drop")))))
	bundled := of[appsv1.Deployment](t, render(t, "weir", variants["bundled"]...), "Deployment")
	g.Expect(bundled).To(ContainElement(HaveField("Spec.Template.Spec.Containers",
		ConsistOf(HaveField("Image", "redis:7.4@sha256:"+strings.Repeat("b", 64))))))
	text := render(t, "edge", redisURL, "extraObjects[0]=apiVersion: v1\nkind: Secret\nmetadata: {name: {{ include \"weir.fullname\" . }}-extra}")
	text.find(t, "Secret/edge-weir-extra")
}

// The condition of a dependency is a value of the dependency, which rejects values that it does not know.
func TestChartAsAConditionalDependency(t *testing.T) {
	g := NewWithT(t)
	platform := t.TempDir()
	write(t, filepath.Join(platform, "Chart.yaml"), `{apiVersion: v2, name: platform, version: 0.1.0,
  dependencies: [{name: weir, version: "*", repository: "file://charts/weir", condition: weir.enabled}]}`)
	g.Expect(os.CopyFS(filepath.Join(platform, "charts", "weir"), os.DirFS(chart))).To(Succeed())
	for enabled, want := range map[string]int{"true": 1, "false": 0} {
		out, complaint, err := tryHelm(t, "template", "weir", platform, "--set", "weir.enabled="+enabled+",weir."+redisURL)
		g.Expect(err).NotTo(HaveOccurred(), complaint)
		g.Expect(of[appsv1.Deployment](t, parse(t, out), "Deployment")).To(HaveLen(want), "enabled=%s", enabled)
	}
}

func TestPortAndAnnotationsOfTheWebhook(t *testing.T) {
	g := NewWithT(t)
	configuration := func(values ...string) map[string]string {
		return render(t, "weir", append(values, redisURL)...).find(t, "ValidatingWebhookConfiguration/weir").GetAnnotations()
	}
	g.Expect(configuration()).To(BeEmpty())
	const injected = "cert-manager.io/inject-ca-from"
	g.Expect(configuration("webhook.annotations.a=b")).To(Equal(map[string]string{"a": "b"}))
	g.Expect(configuration("webhook.annotations.a=b", "webhook.certManager.enabled=true")).
		To(Equal(map[string]string{"a": "b", injected: "weir-system/weir-webhook"}))
	for _, certManager := range []string{"true", "false"} {
		container := weirContainers(t, render(t, "weir", redisURL, "webhook.port=10250", "webhook.certManager.enabled="+certManager))["weir-manager"]
		g.Expect(container.Args).To(ContainElement("--webhook-address=:10250"))
		g.Expect(container.Ports).To(ContainElement(corev1.ContainerPort{Name: "webhook", ContainerPort: 10250}))
	}
}

// The URL reaches the process only as a file.
func TestRedisURLFromASecret(t *testing.T) {
	g := NewWithT(t)
	m := render(t, "weir", variants["a URL from a Secret"]...)
	container := weirContainers(t, m)["weir-manager"]
	g.Expect(container.Args).To(ContainElement("--redis-url-file=/etc/weir/redis-url/url"))
	g.Expect(container.Args).NotTo(ContainElement(HavePrefix("--redis-url=")))
	g.Expect(container.Env).To(BeEmpty())
	volume := of[appsv1.Deployment](t, m, "Deployment")[0].Spec.Template.Spec.Volumes[0]
	g.Expect(volume.Name).To(Equal("redis-url"))
	g.Expect(volume.Secret.SecretName).To(Equal("redis"))
	g.Expect(volume.Secret.Items).To(Equal([]corev1.KeyToPath{{Key: "url", Path: "url"}}))
}

func TestCertificatesForAllPorts(t *testing.T) {
	g := NewWithT(t)
	m := render(t, "weir", variants["certificates for all ports"]...)
	spec := func(name string) map[string]any { return m.find(t, name).Object["spec"].(map[string]any) }
	g.Expect(spec("Certificate/weir")).To(And(HaveKeyWithValue("secretName", "weir-tls"),
		HaveKeyWithValue("issuerRef", map[string]any{"name": "weir", "kind": "Issuer"}),
		HaveKeyWithValue("dnsNames", ConsistOf("weir", "weir.weir-system", "weir.weir-system.svc", "weir.weir-system.svc.cluster.local", "limits.example"))))
	g.Expect(spec("Issuer/weir")).To(HaveKey("selfSigned"))
	g.Expect(spec("Certificate/weir-webhook")).To(And(HaveKeyWithValue("secretName", "weir-webhook-tls"),
		HaveKeyWithValue("dnsNames", ConsistOf("weir-webhook.weir-system.svc"))))
	secrets := map[string]string{}
	for _, volume := range of[appsv1.Deployment](t, m, "Deployment")[0].Spec.Template.Spec.Volumes {
		secrets[volume.Name] = volume.Secret.SecretName
	}
	g.Expect(secrets).To(Equal(map[string]string{"tls": "weir-tls", "clients": "clients", "webhook": "weir-webhook-tls"}))

	issued := render(t, "weir", redisURL, "tls.enabled=true", "tls.certManager.enabled=true", "tls.certManager.issuerRef.name=ours",
		"tls.clientCertificates.required=true")
	g.Expect(issued.find(t, "Certificate/weir").Object["spec"]).To(HaveKeyWithValue("issuerRef", map[string]any{"name": "ours"}))
	for _, object := range issued {
		g.Expect(object.GetKind()).NotTo(Equal("Issuer"))
	}
	g.Expect(of[appsv1.Deployment](t, issued, "Deployment")[0].Spec.Template.Spec.Volumes).To(ContainElement(And(
		HaveField("Name", "clients"), HaveField("Secret.SecretName", "weir-tls"))))
}

// Only the controllers use the network of their nodes, where a new pod may need the ports
// of an old one.
func TestWebhookInTheHostNetwork(t *testing.T) {
	g := NewWithT(t)
	got := map[string][]any{}
	for _, deployment := range of[appsv1.Deployment](t, render(t, "weir", redisURL, "split.enabled=true", "webhook.hostNetwork=true"), "Deployment") {
		pod, rolling := deployment.Spec.Template.Spec, deployment.Spec.Strategy.RollingUpdate
		got[deployment.Name] = []any{pod.HostNetwork, pod.DNSPolicy, rolling.MaxUnavailable.IntValue(), rolling.MaxSurge.IntValue()}
	}
	g.Expect(got).To(Equal(map[string][]any{
		"weir-controller": {true, corev1.DNSClusterFirstWithHostNet, 1, 0}, "weir-decision": {false, corev1.DNSPolicy(""), 0, 1},
	}))
}

// helm test needs no permissions: it creates a policy, and a pod that sends checks.
func TestHelmTest(t *testing.T) {
	g := NewWithT(t)
	help, err := testenv.CommandContext(t.Context(), process.Weir(t), "smoke-test", "--help").Output()
	g.Expect(err).NotTo(HaveOccurred())
	known := flagName.FindAllString(string(help), -1)
	eachVariant(t, func(t *testing.T, g *WithT, m manifests) {
		t.Helper()
		var kinds []string
		for _, object := range m {
			if object.GetAnnotations()["helm.sh/hook"] != "" {
				g.Expect(object.GetAnnotations()).To(HaveKeyWithValue("helm.sh/hook", "test"))
				kinds = append(kinds, object.GetKind())
			}
		}
		if len(kinds) == 0 {
			return
		}
		g.Expect(kinds).To(ContainElements("RateLimitPolicy", "Pod"))
		pod := of[corev1.Pod](t, m, "Pod")[0]
		g.Expect(*pod.Spec.AutomountServiceAccountToken).To(BeFalse())
		g.Expect(pod.Spec.ServiceAccountName).To(BeEmpty())
		container := pod.Spec.Containers[0]
		for _, weir := range weirContainers(t, m) {
			g.Expect(container.Image).To(Equal(weir.Image))
		}
		g.Expect(container.Args).To(ContainElements("smoke-test", "--policy="+m.find(t, "RateLimitPolicy/weir-test").GetNamespace()+"/weir-test"))
		for _, arg := range container.Args[1:] {
			flag, value, _ := strings.Cut(arg, "=")
			g.Expect(known).To(ContainElement(flag))
			if strings.HasSuffix(flag, "-file") {
				g.Expect(container.VolumeMounts).To(ContainElement(HaveField("MountPath", filepath.Dir(value))), arg)
			}
		}
		for _, service := range of[corev1.Service](t, m, "Service") {
			g.Expect(labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels))).To(BeFalse(), service.Name)
		}
		admitted := false
		for _, policy := range of[networkingv1.NetworkPolicy](t, m, "NetworkPolicy") {
			admitted = admitted || policy.Name == "weir-test" &&
				labels.SelectorFromSet(policy.Spec.Ingress[0].From[0].PodSelector.MatchLabels).Matches(labels.Set(pod.Labels))
		}
		g.Expect(admitted).To(Equal(len(kinds) == 3))
	})
	has := func(values ...string) bool { return len(of[corev1.Pod](t, render(t, "weir", values...), "Pod")) == 1 }
	g.Expect(has(redisURL)).To(BeTrue())
	g.Expect(has(redisURL, "helmTest.enabled=false")).To(BeFalse())
	g.Expect(has(variants["certificates for all ports"]...)).To(BeTrue())
	g.Expect(has(append(variants["certificates for all ports"], "helmTest.clientSecret=")...)).To(BeFalse(), "it would be rejected")
}
