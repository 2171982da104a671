// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/config/webhook"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// shownBy returns the serial number of the certificate that the address serves. It fails
// if the pool does not verify it.
func shownBy(address string, pool *x509.CertPool) func() (string, error) {
	return func() (string, error) {
		conn, err := tls.Dial("tcp", address, &tls.Config{
			RootCAs: pool, ServerName: "weir-webhook.default.svc", MinVersion: tls.VersionTLS12,
		})
		if err != nil {
			return "", err
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
	}
}

// secret returns the Secret of the certificate; nil if it does not exist.
func (c *cluster) secret() *corev1.Secret {
	secret := &corev1.Secret{}
	if err := c.client.Get(c.tb.Context(), types.NamespacedName{Namespace: "default", Name: "weir-webhook"}, secret); err != nil {
		return nil
	}
	return secret
}

func TestManagersShareTheWebhookCertificate(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	configuration, err := webhook.Configuration()
	g.Expect(err).NotTo(HaveOccurred())
	c.create(configuration)
	first, second := testenv.FreeAddr(t), testenv.FreeAddr(t)
	c.manager("--webhook-address", first)
	c.manager("--webhook-address", second)
	pool := x509.NewCertPool()
	g.Eventually(func() bool {
		g.Expect(c.client.Get(t.Context(), client.ObjectKeyFromObject(configuration), configuration)).To(Succeed())
		return pool.AppendCertsFromPEM(configuration.Webhooks[0].ClientConfig.CABundle)
	}).Should(BeTrue())
	var serial string
	g.Eventually(func() (err error) { serial, err = shownBy(first, pool)(); return err }).Should(Succeed())
	g.Eventually(shownBy(second, pool)).Should(Equal(serial))
}

// Failures of the webhook do not affect policies and decisions.
func TestManagerWorksWithoutItsWebhook(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	taken, err := net.Listen("tcp", testenv.FreeAddr(t))
	g.Expect(err).NotTo(HaveOccurred())
	defer taken.Close()
	user, err := c.api.Env.AddUser(envtest.User{Name: "weir"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := user.KubeConfig()
	g.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(path, kubeconfig, 0o600)).To(Succeed())
	role := c.grantButSecrets("weir")

	p := c.manager("--kubeconfig", path, "--webhook-address", taken.Addr().String())
	c.apply("p", 5)
	g.Eventually(p.Enforces("p")).Should(Equal(int64(5)))
	g.Eventually(c.condition("p", v1alpha1.ConditionReady)).Should(Equal("True/Ready"))
	g.Eventually(p.Log.String).Should(And(
		ContainSubstring("Failed to serve the webhook"), ContainSubstring("address already in use"),
		ContainSubstring("Failed to maintain the webhook certificate"),
		ContainSubstring(`cannot get resource \"secrets\"`),
	))
	g.Expect(p.Status("/healthz")).To(Equal(200))
	g.Expect(p.Status("/readyz")).To(Equal(200))
	g.Expect(strings.Count(p.Log.String(), "Failed to serve the webhook")).To(Equal(1), "it is logged once")

	// The webhook is served once the problems are gone.
	g.Expect(taken.Close()).To(Succeed())
	role.Rules = append(role.Rules, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "create"},
	})
	g.Expect(c.client.Update(t.Context(), role)).To(Succeed())
	g.Eventually(func() error {
		pool := x509.NewCertPool()
		if secret := c.secret(); secret != nil {
			pool.AppendCertsFromPEM(secret.Data["ca.crt"])
		}
		_, err := shownBy(taken.Addr().String(), pool)()
		return err
	}).Should(Succeed())
	c.edit("p", 6)
	g.Eventually(p.Enforces("p")).Should(Equal(int64(6)))
}

// The API server calls a stopping pod until the endpoints are updated.
func TestManagerServesItsWebhookWhileItDrains(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	start := func(drainDelay string) (p *process.Running, shown func() (string, error)) {
		address := testenv.FreeAddr(t)
		p = c.manager("--webhook-address", address, "--drain-delay", drainDelay)
		pool := x509.NewCertPool()
		shown = shownBy(address, pool)
		g.Eventually(func() error {
			if secret := c.secret(); secret != nil {
				pool.AppendCertsFromPEM(secret.Data["ca.crt"])
			}
			_, err := shown()
			return err
		}).Should(Succeed())
		return p, shown
	}
	draining, shown := start("1h")
	draining.Signal(t, syscall.SIGTERM)
	g.Eventually(func() int { return draining.Status("/readyz") }).Should(Equal(http.StatusServiceUnavailable))
	g.Consistently(func() error { _, err := shown(); return err }, "1s", "50ms").Should(Succeed())
	draining.Kill(t)

	drained, _ := start("300ms")
	drained.Signal(t, syscall.SIGTERM)
	g.Expect(drained.Cmd.Wait()).To(Succeed())
}

// grantButSecrets binds the permissions of the manifests except those on Secrets to the
// user, and returns the Role without them.
func (c *cluster) grantButSecrets(user string) *rbacv1.Role {
	c.tb.Helper()
	data, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		c.tb.Fatal(err)
	}
	clusterRole, role := &rbacv1.ClusterRole{}, &rbacv1.Role{}
	for i, into := range []any{clusterRole, role} {
		if err := yaml.UnmarshalStrict([]byte(strings.Split(string(data), "---\n")[i+1]), into); err != nil {
			c.tb.Fatal(err)
		}
	}
	role.Namespace = "default"
	var rules []rbacv1.PolicyRule
	for _, rule := range role.Rules {
		if rule.Resources[0] != "secrets" {
			rules = append(rules, rule)
		}
	}
	role.Rules = rules
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	c.create(clusterRole)
	c.create(role)
	c.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole.Name},
	})
	c.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: role.Namespace, Name: user}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	})
	return role
}

// Certificate files need not exist at the start, and no certificate is issued then.
func TestWebhookCertificateFiles(t *testing.T) {
	g := NewWithT(t)
	c := startCluster(t)
	authority := testenv.NewAuthority(t)
	dir, address := t.TempDir(), testenv.FreeAddr(t)
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	p := c.manager("--webhook-address", address, "--webhook-cert-file", certFile, "--webhook-key-file", keyFile)
	c.apply("p", 5)
	g.Eventually(p.Enforces("p")).Should(Equal(int64(5)))
	g.Eventually(p.Log.String).Should(ContainSubstring("Waiting for the webhook certificate files"))
	shown := shownBy(address, authority.Pool())
	g.Eventually(func() error { _, err := shown(); return err }).
		Should(MatchError(ContainSubstring("internal error")), "the port is open but has no certificate")

	previous := ""
	for range 2 {
		cert, key := authority.Issue(t, "webhook", "weir-webhook.default.svc")
		g.Expect(os.WriteFile(certFile, cert, 0o600)).To(Succeed())
		g.Expect(os.WriteFile(keyFile, key, 0o600)).To(Succeed())
		g.Eventually(shown).ShouldNot(Or(BeEmpty(), Equal(previous)))
		previous, _ = shown()
	}
	g.Expect(c.secret()).To(BeNil())
}
