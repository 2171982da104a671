// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package charts tests the installation manifests: the chart in charts/weir and the
// bases in config, rendered with helm and kubectl.
package charts

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
)

const (
	root  = "../.."
	chart = root + "/charts/weir"

	// redisURL is the Redis of config/default.
	redisURL = "redis.url=redis://redis.redis.svc:6379"
)

// variants are sets of values that together cover all templates.
var variants = map[string][]string{
	"defaults":     {redisURL},
	"split":        {redisURL, "split.enabled=true"},
	"cert-manager": {redisURL, "webhook.certManager.enabled=true"},
	"an issuer":    {redisURL, "webhook.certManager.enabled=true", "webhook.certManager.issuerRef.name=ours", "webhook.certManager.issuerRef.kind=ClusterIssuer"},
	"sentinel": {
		`redis.url=rediss-sentinel://a.example:26379/m/2?addr=b.example:26379&addr=c.example:26379`, "redis.serverName=redis.example",
		"redis.existingSecret=redis", "redis.secretKeys.sentinelUsername=suser", "redis.secretKeys.sentinelPassword=spassword",
	},
	"watched Namespaces": {
		redisURL, "watchNamespaces={shop,bank}", "crds.enabled=false", "webhook.certManager.enabled=true", "split.enabled=true", "adminTokenSecret=admin",
	},
	"excluded Namespaces": {redisURL, "excludeNamespaces={kube-system,old}"},
	"bundled":             {"redis.bundled.enabled=true", "redis.bundled.image=redis:7.4", "redis.bundled.digest=sha256:" + strings.Repeat("b", 64)},
	"a URL from a Secret": {
		"redis.urlFromSecret.name=redis", "redis.urlFromSecret.key=url", "redis.serverName=redis.example",
		"redis.existingSecret=redis", "redis.secretKeys.password=", "redis.secretKeys.ca=ca.crt",
	},
	"certificates for all ports": {
		redisURL, "tls.enabled=true", "tls.certManager.enabled=true", "tls.certManager.dnsNames={limits.example}", "webhook.certManager.enabled=true",
		"tls.clientCertificates.required=true", "tls.clientCertificates.caSecret=clients", "helmTest.clientSecret=tester", "helmTest.serverName=limits.example",
	},
	"little": {
		redisURL, "webhook.enabled=false", "networkPolicy.enabled=false", "podDisruptionBudget.enabled=false",
		"crds.enabled=false", "rbac.create=false", "serviceAccount.create=false", "topologySpread.topologyKeys=null",
	},
	"everything": {
		"redis.url=rediss-cluster://redis.redis.svc:6379", "redis.existingSecret=redis", "redis.secretKeys.username=user",
		"redis.secretKeys.ca=ca", "redis.secretKeys.certificate=crt", "redis.secretKeys.privateKey=key",
		"split.enabled=true", "split.decision.resources.limits.memory=1Gi", "autoscaling.enabled=true", "tenancy=Cluster",
		"trustedProxies={10.0.0.0/8,fd00::/8}", "principalHeader=X-User", "legacyHeaders=true", "logLevel=debug",
		"tls.enabled=true", "tls.existingSecret=tls", "tls.clientCertificates.required=true",
		"tls.clientCertificates.allowedNames={spiffe://shop/gateway,gateway}", "webhook.failurePolicy=Fail", "webhook.clientCIDRs={192.0.2.0/24,2001:db8::/64}",
		"serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true",
		"networkPolicy.extraClients[0].podSelector.matchLabels.app=gateway", "networkPolicy.egress[0].ports[0].port=6379",
		"image.digest=sha256:" + strings.Repeat("a", 64), "image.pullSecrets[0].name=registry",
		"extraArgs={--lease-duration=30s}", "extraEnv[0].name=OTEL_EXPORTER_OTLP_ENDPOINT", "extraEnv[0].value=http://otel:4317",
		"podAnnotations.a=b", "podLabels.c=d", "nodeSelector.disk=ssd", "tolerations[0].operator=Exists",
		"affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution=null", "priorityClassName=high",
		"serviceAccount.name=limits", "serviceAccount.annotations.e=f", "service.type=LoadBalancer", "service.annotations.g=h",
		"service.ipFamilyPolicy=PreferDualStack", "service.ipFamilies={IPv4}", "service.loadBalancerSourceRanges={192.0.2.0/24}",
		"webhook.port=10250", "webhook.annotations.i=j",
		"commonLabels.team=edge", "serviceMonitor.labels.team=watch", "autoscaling.behavior.scaleDown.stabilizationWindowSeconds=600",
		"serviceMonitor.relabelings[0].targetLabel=cluster", "serviceMonitor.metricRelabelings[0].action=drop",
		"service.trafficDistribution=PreferClose", "extraVolumes[0].name=cache", "extraVolumes[0].emptyDir.medium=Memory",
		"extraVolumeMounts[0].name=cache", "extraVolumeMounts[0].mountPath=/cache",
		"extraObjects[0].apiVersion=v1", "extraObjects[0].kind=ConfigMap", "extraObjects[0].metadata.name=of-{{ .Release.Name }}",
		"extraObjects[0].metadata.namespace=weir-system",
		"crds.keep=false", access("on-call", "operator"), "access[0].reveal=true", "observe=false", "console.enabled=true",
	},
}

// manifests is a list of rendered objects.
type manifests []*unstructured.Unstructured

// tryHelm runs helm and returns its standard output and its error.
func tryHelm(t *testing.T, args ...string) (out, complaint string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	command := testenv.CommandContext(t.Context(), kube.Helm(t), args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	err = command.Run()
	return stdout.String(), stderr.String(), err
}

func template(t *testing.T, release string, values []string) []string {
	t.Helper()
	args := []string{"template", release, chart, "--namespace", "weir-system", "--kube-version", kube.Version(t)}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return args
}

// render renders the chart.
func render(t *testing.T, release string, values ...string) manifests {
	t.Helper()
	out, complaint, err := tryHelm(t, template(t, release, values)...)
	if err != nil {
		t.Fatalf("helm template: %v: %s", err, complaint)
	}
	return parse(t, out)
}

// kustomize renders a folder of config.
func kustomize(t *testing.T, folder string) manifests {
	t.Helper()
	out, err := testenv.CommandContext(t.Context(), kube.Kubectl(t), "kustomize", folder).Output()
	if err != nil {
		t.Fatalf("kubectl kustomize %s: %v", folder, err)
	}
	return parse(t, string(out))
}

func parse(t *testing.T, text string) (all manifests) {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}

// id returns an ID of the object, unique among the manifests.
func id(object *unstructured.Unstructured) string {
	return object.GetKind() + "/" + object.GetName()
}

// find returns the object, as "<kind>/<name>".
func (m manifests) find(t *testing.T, want string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range m {
		if id(object) == want {
			return object
		}
	}
	t.Fatalf("no %s", want)
	return nil
}

// installed returns the objects without the objects of helm test.
func (m manifests) installed() manifests {
	return slices.DeleteFunc(slices.Clone(m), func(object *unstructured.Unstructured) bool {
		return object.GetAnnotations()["helm.sh/hook"] != ""
	})
}

// of returns all objects of a kind, decoded into their type.
func of[T any](t *testing.T, m manifests, kind string) (all []T) {
	t.Helper()
	for _, object := range m {
		if object.GetKind() != kind {
			continue
		}
		var typed T
		err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, &typed, true)
		if err != nil {
			t.Fatalf("%s: %v", id(object), err)
		}
		all = append(all, typed)
	}
	return all
}

// weirContainers returns the containers that run weir, by the name of their Deployment.
func weirContainers(t *testing.T, m manifests) map[string]corev1.Container {
	t.Helper()
	containers := map[string]corev1.Container{}
	for _, deployment := range of[appsv1.Deployment](t, m, "Deployment") {
		for _, container := range deployment.Spec.Template.Spec.Containers {
			if container.Name == "weir" {
				containers[deployment.Name] = container
			}
		}
	}
	return containers
}

// eachVariant runs a test for every set of values.
func eachVariant(t *testing.T, test func(t *testing.T, g *WithT, m manifests)) {
	t.Helper()
	for name, values := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, NewWithT(t), render(t, "weir", values...))
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
