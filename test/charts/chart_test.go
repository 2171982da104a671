// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/weir-dev/weir/config/crd"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
	"github.com/weir-dev/weir/test/testenv/process"
)

// By default helm and kustomize install the same objects, except for the labels of the
// release and the Namespace, which helm creates itself.
func TestChartAndKustomizeInstallTheSame(t *testing.T) {
	g := NewWithT(t)
	byHelm, byKustomize := common(render(t, "weir", redisURL).installed()), common(kustomize(t, root+"/config/default"))
	delete(byKustomize, "Namespace/weir-system")
	g.Expect(keys(byHelm)).To(ConsistOf(keys(byKustomize)))
	for name, object := range byHelm {
		g.Expect(object).To(Equal(byKustomize[name]), name)
	}
}

// common returns the object without the fields that may differ.
func common(m manifests) map[string]any {
	all := map[string]any{}
	for _, object := range m {
		aggregation := map[string]string{}
		for label, value := range object.GetLabels() {
			if strings.HasPrefix(label, "rbac.authorization.k8s.io/") {
				aggregation[label] = value
			}
		}
		object.SetLabels(aggregation)
		object.SetAnnotations(nil)
		all[id(object)] = without(object.Object, "app.kubernetes.io/instance")
	}
	return all
}

// without removes a key at every level.
func without(value any, key string) any {
	switch value := value.(type) {
	case map[string]any:
		delete(value, key)
		for name := range value {
			value[name] = without(value[name], key)
		}
	case []any:
		for i := range value {
			value[i] = without(value[i], key)
		}
	}
	return value
}

func keys(m map[string]any) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}

func TestHelmLintIsClean(t *testing.T) {
	g := NewWithT(t)
	out, complaint, err := tryHelm(t, "lint", "--strict", chart, "--kube-version", kube.Version(t), "--set", redisURL)
	g.Expect(err).NotTo(HaveOccurred(), out+complaint)
}

func TestChartHasTheGeneratedCRDs(t *testing.T) {
	g := NewWithT(t)
	want, err := crd.Definitions()
	g.Expect(err).NotTo(HaveOccurred())
	for keep, policy := range map[string]string{"true": "keep", "false": ""} {
		definitions := of[apiextensionsv1.CustomResourceDefinition](t, render(t, "weir", redisURL, "crds.keep="+keep), "CustomResourceDefinition")
		g.Expect(definitions).To(HaveLen(len(want)))
		for i, definition := range definitions {
			g.Expect(definition.Spec).To(Equal(want[i].Spec))
			g.Expect(definition.Annotations["helm.sh/resource-policy"]).To(Equal(policy))
		}
	}
	g.Expect(of[apiextensionsv1.CustomResourceDefinition](t, render(t, "weir", redisURL, "crds.enabled=false"), "CustomResourceDefinition")).
		To(BeEmpty())
}

// Names contain the release name, and the flags use these names.
func TestNamesFollowTheRelease(t *testing.T) {
	for name, tc := range map[string]struct{ release, values, want string }{
		"the usual one": {"weir", "replicas=2", "weir"},
		"another one":   {"edge", "replicas=2", "edge-weir"},
		"a long one":    {strings.Repeat("a", 53), "replicas=2", strings.Repeat("a", 40) + "-weir"},
		"one with dots": {strings.Repeat("a", 39) + ".b", "replicas=2", strings.Repeat("a", 39) + "-weir"},
		"an override":   {"edge", "fullnameOverride=limits", "limits"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m := render(t, tc.release, redisURL, tc.values)
			for _, want := range []string{
				"Service/" + tc.want, "Service/" + tc.want + "-webhook", "Service/" + tc.want + "-metrics",
				"ValidatingWebhookConfiguration/" + tc.want,
			} {
				m.find(t, want)
			}
			for _, object := range m {
				g.Expect(object.GetName()).To(Or(HavePrefix(tc.want), HaveSuffix(".ratelimit.weir.dev")))
				g.Expect(len(object.GetName())).To(BeNumerically("<=", 63))
				g.Expect(strings.TrimSuffix(object.GetName(), ".ratelimit.weir.dev")).NotTo(ContainSubstring("."))
			}
			g.Expect(weirContainers(t, m)[tc.want+"-manager"].Args).To(ContainElements(
				"--webhook-secret="+tc.want+"-webhook", "--webhook-service="+tc.want+"-webhook", "--webhook-configuration="+tc.want))
		})
	}
}

// Every Service selects exactly the pods that serve its ports.
func TestServicesSelectTheirPods(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *WithT, m manifests) {
		t.Helper()
		deployments := of[appsv1.Deployment](t, m, "Deployment")
		for _, service := range of[corev1.Service](t, m, "Service") {
			served := 0
			for _, deployment := range deployments {
				template := deployment.Spec.Template
				g.Expect(labels.SelectorFromSet(deployment.Spec.Selector.MatchLabels).Matches(labels.Set(template.Labels))).To(BeTrue())
				ports := portsOf(template.Spec.Containers[0])
				wants := slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.TargetPort.StrVal != "http" && ports[p.TargetPort.StrVal] })
				selected := labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(template.Labels))
				g.Expect(selected).To(Equal(wants), "%s and %s", service.Name, deployment.Name)
				if !selected {
					continue
				}
				served++
				for _, port := range service.Spec.Ports {
					g.Expect(ports).To(HaveKey(port.TargetPort.StrVal), "%s and %s", service.Name, deployment.Name)
				}
			}
			g.Expect(served).To(BeNumerically(">", 0), service.Name)
		}
	})
}

func portsOf(container corev1.Container) map[string]bool {
	ports := map[string]bool{}
	for _, port := range container.Ports {
		ports[port.Name] = true
	}
	return ports
}

func TestServicePorts(t *testing.T) {
	g := NewWithT(t)
	ports := map[string][]string{}
	for _, service := range of[corev1.Service](t, render(t, "weir", redisURL), "Service") {
		for _, port := range service.Spec.Ports {
			ports[service.Name] = append(ports[service.Name], port.Name+" -> "+port.TargetPort.String()+", "+*port.AppProtocol)
		}
	}
	g.Expect(ports).To(Equal(map[string][]string{
		"weir": {"http -> http, http", "grpc -> grpc, grpc"}, "weir-metrics": {"metrics -> metrics, http"},
		"weir-webhook": {"webhook -> webhook, https"},
	}))
}

var flagName = regexp.MustCompile(`--[a-z-]+`)

// Every flag of a container exists, and every file in it is mounted.
func TestArgumentsExist(t *testing.T) {
	g := NewWithT(t)
	help, err := testenv.CommandContext(t.Context(), process.Weir(t), "manager", "--help").Output()
	g.Expect(err).NotTo(HaveOccurred())
	known := flagName.FindAllString(string(help), -1)
	g.Expect(len(known)).To(BeNumerically(">", 20))

	eachVariant(t, func(t *testing.T, g *WithT, m manifests) {
		t.Helper()
		for name, container := range weirContainers(t, m) {
			g.Expect(container.Args[0]).To(Equal("manager"))
			given := map[string]bool{}
			for _, arg := range container.Args[1:] {
				flag, value, _ := strings.Cut(arg, "=")
				g.Expect(known).To(ContainElement(flag), name)
				g.Expect(given).NotTo(HaveKey(flag), name)
				given[flag] = true
				if strings.HasSuffix(flag, "-file") {
					g.Expect(container.VolumeMounts).To(ContainElement(
						HaveField("MountPath", filepath.Dir(value))), "%s: %s", name, arg)
				}
			}
		}
	})
}

func TestControllersAndDecisionsCanBeSplit(t *testing.T) {
	g := NewWithT(t)
	both := weirContainers(t, render(t, "weir", redisURL, "split.enabled=true"))
	g.Expect(both).To(HaveLen(2))
	controller, decision := both["weir-controller"].Args, both["weir-decision"].Args
	g.Expect(controller).To(ContainElements("--decisions=false", "--tenancy=Namespace", "--webhook-secret=weir-webhook"))
	g.Expect(controller).NotTo(ContainElement("--controllers=false"))
	g.Expect(decision).To(ContainElement("--controllers=false"))
	g.Expect(decision).NotTo(ContainElement(HavePrefix("--webhook")))
	g.Expect(decision).NotTo(ContainElement("--decisions=false"))
	g.Expect(portsOf(both["weir-decision"])).To(HaveKey("operator"))
	g.Expect(portsOf(both["weir-controller"])).NotTo(HaveKey("operator"), "without decisions it serves no calls on keys")
}

func TestRedisCredentialsComeFromASecret(t *testing.T) {
	g := NewWithT(t)
	container := weirContainers(t, render(t, "weir", variants["everything"]...))["weir-decision"]
	g.Expect(container.Args).To(ContainElements(
		"--redis-url=rediss-cluster://redis.redis.svc:6379",
		"--redis-username-file=/etc/weir/redis/username", "--redis-password-file=/etc/weir/redis/password",
		"--redis-ca-file=/etc/weir/redis/ca.crt", "--redis-cert-file=/etc/weir/redis/tls.crt", "--redis-key-file=/etc/weir/redis/tls.key"))

	sentinel := render(t, "weir", variants["sentinel"]...)
	g.Expect(weirContainers(t, sentinel)["weir-manager"].Args).To(ContainElements(
		"--redis-url=rediss-sentinel://a.example:26379/m/2?addr=b.example:26379&addr=c.example:26379", "--redis-server-name=redis.example",
		"--redis-password-file=/etc/weir/redis/password", "--redis-sentinel-username-file=/etc/weir/redis/sentinel-username",
		"--redis-sentinel-password-file=/etc/weir/redis/sentinel-password"))
	mounted := of[appsv1.Deployment](t, sentinel, "Deployment")[0].Spec.Template.Spec.Volumes[0].Secret
	g.Expect(mounted.Items).To(ConsistOf(
		corev1.KeyToPath{Key: "password", Path: "password"}, corev1.KeyToPath{Key: "suser", Path: "sentinel-username"},
		corev1.KeyToPath{Key: "spassword", Path: "sentinel-password"}))

	// config/redis-secret adds the same to config/default.
	folder := filepath.Join(root, "config", "default")
	overlay := t.TempDir()
	text := strings.NewReplacer("# components:", "components:", "# - ../redis-secret", "- ../redis-secret").
		Replace(read(t, filepath.Join(folder, "kustomization.yaml")))
	g.Expect(text).NotTo(Equal(read(t, filepath.Join(folder, "kustomization.yaml"))))
	for _, name := range []string{"crd", "rbac", "manager", "webhook", "network-policy", "admission", "redis-secret", "default"} {
		out, err := testenv.CommandContext(t.Context(), "cp", "-r", filepath.Join(root, "config", name), overlay).CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(out))
	}
	write(t, filepath.Join(overlay, "default", "kustomization.yaml"), text)
	deployment := of[appsv1.Deployment](t, kustomize(t, filepath.Join(overlay, "default")), "Deployment")[0]
	pod := deployment.Spec.Template.Spec
	g.Expect(pod.Containers[0].Args).To(ContainElement("--redis-password-file=/etc/weir/redis/password"))
	g.Expect(pod.Volumes[0].Secret.SecretName).To(Equal("weir-redis"))
	g.Expect(*pod.Volumes[0].Secret.DefaultMode).To(BeEquivalentTo(0o440))
}

// A pod has time to drain, and its successor starts before it stops.
func TestPodsDrainAndRollGracefully(t *testing.T) {
	g := NewWithT(t)
	m := render(t, "weir", redisURL, "drainDelaySeconds=60")
	deployment := of[appsv1.Deployment](t, m, "Deployment")[0]
	g.Expect(deployment.Spec.Template.Spec.Containers[0].Args).To(ContainElement("--drain-delay=60s"))
	g.Expect(*deployment.Spec.Template.Spec.TerminationGracePeriodSeconds).To(BeNumerically(">", 60+10))
	g.Expect(deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.String()).To(Equal("0"))
	g.Expect(deployment.Spec.Strategy.RollingUpdate.MaxSurge.String()).To(Equal("1"))
	g.Expect(*deployment.Spec.Replicas).To(BeEquivalentTo(2))

	scaled := of[appsv1.Deployment](t, render(t, "weir", redisURL, "autoscaling.enabled=true"), "Deployment")[0]
	g.Expect(scaled.Spec.Replicas).To(BeNil(), "the autoscaler sets the replicas")
}
