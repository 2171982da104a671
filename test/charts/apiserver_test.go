// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
)

// A real API server accepts every object in a dry run, and every pod in a Namespace with
// the restricted Pod Security Standard.
func TestAPIServerAcceptsTheObjects(t *testing.T) {
	server := kube.StartAPIServer(t)
	api := server.Client()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "weir-system", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	NewWithT(t).Expect(api.Create(t.Context(), namespace)).To(Succeed())
	for _, name := range []string{"shop", "bank"} {
		tenant := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		NewWithT(t).Expect(api.Create(t.Context(), tenant)).To(Succeed())
	}
	take := func(t *testing.T, m manifests) {
		t.Helper()
		g := NewWithT(t)
		for _, object := range m {
			group, _, _ := strings.Cut(object.GetAPIVersion(), "/")
			if group == "cert-manager.io" || group == "monitoring.coreos.com" {
				continue // their CRDs are not installed here
			}
			err := api.Create(t.Context(), object.DeepCopy(), client.DryRunAll)
			if client.IgnoreAlreadyExists(err) == nil {
				err = nil // the CRD and the Namespace
			}
			g.Expect(err).NotTo(HaveOccurred(), id(object))
		}
		for _, deployment := range of[appsv1.Deployment](t, m, "Deployment") {
			pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
			pod.Name, pod.Namespace = deployment.Name, deployment.Namespace
			// Another admission plugin rejects a missing PriorityClass.
			pod.Spec.PriorityClassName = ""
			g.Expect(api.Create(t.Context(), pod, client.DryRunAll)).To(Succeed(), deployment.Name)
		}
	}
	for name, values := range variants {
		t.Run(name, func(t *testing.T) { take(t, render(t, "weir", values...)) })
	}
	t.Run("kustomize", func(t *testing.T) { take(t, kustomize(t, root+"/config/default")) })

	t.Run("notes", func(t *testing.T) {
		kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
		write(t, kubeconfig, string(server.Env.KubeConfig))
		notes := func(values string) string {
			g := NewWithT(t)
			out, complaint, err := tryHelm(t, "install", "edge", chart, "--kubeconfig", kubeconfig, "--namespace", "limits",
				"--dry-run=server", "--set", "crds.enabled=false,"+values)
			g.Expect(err).NotTo(HaveOccurred(), complaint)
			_, text, found := strings.Cut(out, "\nNOTES:\n")
			g.Expect(found).To(BeTrue())
			return text
		}
		expectNotes(t, notes)
	})
}

// An upgrade keeps the replicas of an autoscaler and the CA bundle of the webhook.
func TestUpgradeKeepsForeignFields(t *testing.T) {
	g := NewWithT(t)
	server := kube.StartAPIServer(t)
	api := server.Client()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, kubeconfig, string(server.Env.KubeConfig))
	upgrade := func(values string) {
		t.Helper()
		_, complaint, err := tryHelm(t, "upgrade", "weir", chart, "--install", "--kubeconfig", kubeconfig, "--namespace", "default",
			"--set", "crds.enabled=false,"+redisURL+","+values)
		g.Expect(err).NotTo(HaveOccurred(), complaint)
	}
	upgrade("autoscaling.enabled=true")
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	g.Expect(api.Get(t.Context(), client.ObjectKey{Name: "weir"}, configuration)).To(Succeed())
	trusted, _ := testenv.NewAuthority(t).Issue(t, "webhook")
	configuration.Webhooks[0].ClientConfig.CABundle = trusted
	g.Expect(api.Update(t.Context(), configuration)).To(Succeed())

	deployment := &appsv1.Deployment{}
	g.Expect(api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "weir-manager"}, deployment)).To(Succeed())
	deployment.Spec.Replicas = new(int32(4))
	g.Expect(api.Update(t.Context(), deployment)).To(Succeed())

	upgrade("autoscaling.enabled=true,webhook.timeoutSeconds=6")
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
	g.Expect(*deployment.Spec.Replicas).To(BeEquivalentTo(4))
	g.Expect(api.Get(t.Context(), client.ObjectKey{Name: "weir"}, configuration)).To(Succeed())
	g.Expect(*configuration.Webhooks[0].TimeoutSeconds).To(BeEquivalentTo(6))
	g.Expect(configuration.Webhooks[0].ClientConfig.CABundle).To(Equal(trusted))
}

// expectNotes expects the notes to have the next commands and the warnings.
func expectNotes(t *testing.T, notes func(values string) string) {
	t.Helper()
	g := NewWithT(t)
	usual := notes(redisURL)
	g.Expect(usual).To(ContainSubstring("kubectl -n limits rollout status deployment/edge-weir-manager"))
	g.Expect(usual).To(ContainSubstring("kubectl apply -f -"))
	g.Expect(usual).To(ContainSubstring("http://edge-weir.limits.svc:8080/v1/check"))
	g.Expect(usual).NotTo(ContainSubstring("WARNING"))
	const makeAccount = "kubectl weir access --role operator -n default --weir-namespace=limits --fullname=edge-weir | kubectl apply -f -"
	g.Expect(usual).To(ContainSubstring(makeAccount))
	g.Expect(notes(redisURL + "," + access("on-call", "operator"))).NotTo(ContainSubstring("kubectl weir access"))
	g.Expect(notes("redis.bundled.enabled=true,redis.bundled.image=redis:7.4")).To(ContainSubstring("WARNING: the bundled Redis loses"))
	g.Expect(notes("networkPolicy.enabled=false," + redisURL)).To(ContainSubstring("WARNING: without a NetworkPolicy"))
	g.Expect(notes("service.type=LoadBalancer," + redisURL)).To(ContainSubstring("is empty, so it is open to all networks"))
	limited := notes("service.type=LoadBalancer,service.loadBalancerSourceRanges={192.0.2.0/24}," + redisURL)
	g.Expect(limited).To(And(ContainSubstring("WARNING: everyone who reaches the load balancer"), Not(ContainSubstring("is empty"))))
	split := notes("split.enabled=true,tls.enabled=true,tls.existingSecret=tls," + redisURL)
	g.Expect(split).To(ContainSubstring("deployment/edge-weir-decision"))
	g.Expect(split).To(ContainSubstring("https://edge-weir.limits.svc:8080/v1/check"))

	applied, commands := paste(t, usual)
	g.Expect(commands).To(Equal([]string{
		"kubectl -n limits rollout status deployment/edge-weir-manager", "helm -n limits test edge", "kubectl apply -f -",
		"kubectl label --overwrite namespace default ratelimit.weir.dev/client=true",
		"kubectl -n default run weir-hello --rm --attach --restart=Never --image=ghcr.io/weir-dev/weir:0.1.0 -- " +
			"smoke-test --url=http://edge-weir.limits.svc:8080 --policy=default/hello",
	}))
	parse(t, applied).find(t, "RateLimitPolicy/hello")
	_, commands = paste(t, split)
	g.Expect(commands).To(HaveLen(4))
}

// paste runs the notes in a shell. It returns the commands, and the input of kubectl apply.
func paste(t *testing.T, notes string) (applied string, commands []string) {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	const stub = `#!/bin/sh
echo "${0##*/} $*" >>"${0%/*}/commands"
if [ "$1" = apply ]; then cat >"${0%/*}/applied"; fi
`
	for _, name := range []string{"kubectl", "helm"} {
		write(t, filepath.Join(dir, name), stub)
		g.Expect(os.Chmod(filepath.Join(dir, name), 0o700)).To(Succeed())
	}
	shell := testenv.CommandContext(t.Context(), "bash", "-eu")
	shell.Stdin = strings.NewReader(notes)
	shell.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	out, err := shell.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Expect(out).To(BeEmpty())
	return read(t, filepath.Join(dir, "applied")), strings.Split(strings.TrimSpace(read(t, filepath.Join(dir, "commands"))), "\n")
}
