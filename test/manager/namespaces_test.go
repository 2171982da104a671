// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// The Roles of the chart suffice for watched Namespaces. No Role permits to watch the
// Namespace, so a grant is read when a policy is judged and every 30 s.
func TestManagerWatchesNamespacesWithRoles(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	for _, name := range []string{"weir-system", "bank", "other"} {
		c.api.CreateNamespace(name)
	}
	kinds := c.install("--set", "watchNamespaces={shop,bank},crds.enabled=false,webhook.enabled=false,redis.url=redis://redis",
		"--show-only", "templates/rbac.yaml", "--show-only", "templates/watch.yaml")
	g.Expect(kinds).NotTo(ContainElement(HavePrefix("Cluster")))
	g.Expect(kinds).To(ContainElements("Role", "RoleBinding"))
	token := filepath.Join(t.TempDir(), "token")
	g.Expect(os.WriteFile(token, []byte("s3cret"), 0o600)).To(Succeed())
	p := c.manager("--tenancy", "Namespace", "--watch-namespaces", "shop,bank", "--lease-namespace", "weir-system",
		"--kubeconfig", c.account("weir-system", "weir"), "--admin-token-file", token)

	c.apply("named", 7)
	g.Eventually(p.Enforces("named")).Should(Equal(int64(7)))
	c.create(testpolicy.Make("other/outside").Limit("hourly", v1alpha1.AlgorithmFixedWindow, 3, "1h").Obj())
	c.create(testpolicy.Make("shop/p").Match(v1alpha1.Match{Hosts: []string{"shop.example"}}).
		Limit("hourly", v1alpha1.AlgorithmFixedWindow, 3, "1h").Obj())
	g.Eventually(c.condition("p", v1alpha1.ConditionAccepted)).Should(Equal("False/MatchNotPermitted"))
	// Without an edit, the grant is read every 30 s. An edit that takes nearly as long, on a busy machine, shows nothing.
	for threshold, took := int64(4), time.Hour; took > 20*time.Second; threshold++ {
		g.Expect(threshold).To(BeNumerically("<", 10), "an edit is judged by the grant in the API server")
		c.grant(`"shop.example"`)
		c.edit("p", threshold)
		edited := time.Now()
		g.Eventually(p.Enforces("p")).Should(Equal(threshold))
		took = time.Since(edited)
		// Nothing else queues the policy once it is ready.
		g.Eventually(c.condition("p", v1alpha1.ConditionReady)).Should(Equal("True/Ready"))
		c.grant(`null`)
		g.Eventually(p.Enforces("p")).Should(Equal(int64(-404)), "without an edit, the grant is read every 30 s")
	}

	status, body := p.Operator("s3cret", "GET", "/v1/state?policy=shop/named&key=k&asGiven=true", "")
	g.Expect(status).To(Equal(http.StatusOK), body)
	status, _ = p.Operator("wrong", "GET", "/v1/state?policy=shop/named&key=k&asGiven=true", "")
	g.Expect(status).To(Equal(http.StatusUnauthorized))
	g.Expect(p.Log.String()).NotTo(ContainSubstring("forbidden"))
	outside := &v1alpha1.RateLimitPolicy{}
	g.Expect(c.client.Get(t.Context(), types.NamespacedName{Namespace: "other", Name: "outside"}, outside)).To(Succeed())
	g.Expect(outside.Status.Conditions).To(BeEmpty())
	g.Expect(c.client.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "p"}, outside)).To(Succeed())
	g.Expect(outside.Status.Conditions).NotTo(BeEmpty())
}

// The plans of a Namespace are removed when it is excluded.
func TestManagerExcludesNamespaces(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	c.api.CreateNamespace("kept")
	c.create(testpolicy.Make("kept/k").Limit("hourly", v1alpha1.AlgorithmFixedWindow, 3, "1h").Obj())
	c.apply("p", 5)
	p := c.manager(shortLease...)
	g.Eventually(p.Enforces("p")).Should(Equal(int64(5)))
	p.Kill(t)

	p = c.manager("--exclude-namespaces", "shop,elsewhere")
	g.Eventually(p.Enforces("p")).Should(Equal(int64(-404)))
	status, _, err := p.Check(`{"policies":["kept/k"],"key":"a"}`)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status).To(Equal(http.StatusOK))
}

// install creates objects of the chart and returns their kinds.
func (c *cluster) install(args ...string) (kinds []string) {
	c.tb.Helper()
	g := NewWithT(c.tb)
	helm := testenv.CommandContext(c.tb.Context(), kube.Helm(c.tb), append([]string{
		"template", "weir", "../../charts/weir", "--namespace", "weir-system", "--kube-version", kube.Version(c.tb),
	}, args...)...)
	var problems bytes.Buffer
	helm.Stderr = &problems
	out, err := helm.Output()
	g.Expect(err).NotTo(HaveOccurred(), problems.String())
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return kinds
		}
		g.Expect(err).NotTo(HaveOccurred())
		if len(object.Object) > 0 {
			c.create(object)
			kinds = append(kinds, object.GetKind())
		}
	}
}

// account returns the kubeconfig of a user with the name and groups of a ServiceAccount.
func (c *cluster) account(namespace, name string) string {
	c.tb.Helper()
	g := NewWithT(c.tb)
	user, err := c.api.Env.AddUser(envtest.User{
		Name:   strings.Join([]string{"system:serviceaccount", namespace, name}, ":"),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
	}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := user.KubeConfig()
	g.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(c.tb.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(path, kubeconfig, 0o600)).To(Succeed())
	return path
}

// grant sets the annotation with the hosts of the Namespace shop to a JSON value.
func (c *cluster) grant(hosts string) {
	c.tb.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"ratelimit.weir.dev/hosts":%s}}}`, hosts)
	if err := c.client.Patch(c.tb.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		c.tb.Fatal(err)
	}
}
