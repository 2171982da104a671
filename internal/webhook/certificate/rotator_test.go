// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package certificate_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/config/webhook"
	"github.com/weir-dev/weir/internal/webhook/certificate"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
)

func TestCertificate(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Certificate")
}

var (
	server *kube.APIServer
	api    client.Client
	admin  kubernetes.Interface
)

var _ = BeforeSuite(func() {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	server = kube.StartAPIServer(GinkgoTB())
	api = server.Client()
	var err error
	admin, err = kubernetes.NewForConfig(server.Config)
	Expect(err).NotTo(HaveOccurred())
})

const name = "weir-webhook.weir-system.svc"

// fixture is a Namespace and a webhook configuration for one spec, with the rotators
// that maintain them.
type fixture struct {
	options certificate.Options
	log     *testenv.Log
}

func newFixture(ctx context.Context) *fixture {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "spec-"}}
	Expect(api.Create(ctx, namespace)).To(Succeed())
	f := &fixture{log: &testenv.Log{}}
	f.options = certificate.Options{
		Names: []string{name}, Namespace: namespace.Name, Secret: "weir-webhook", Configuration: namespace.Name,
		Clients: admin, Logger: slog.New(slog.NewTextHandler(f.log, nil)), Now: time.Now, Interval: 20 * time.Millisecond,
	}
	return f
}

// configure applies the webhook configuration of the release under the spec's name.
func (f *fixture) configure(ctx context.Context) {
	GinkgoHelper()
	configuration, err := webhook.Configuration()
	Expect(err).NotTo(HaveOccurred())
	configuration.Name = f.options.Configuration
	Expect(api.Create(ctx, configuration)).To(Succeed())
	DeferCleanup(api.Delete, configuration)
}

// start runs a rotator until the spec ends.
func (f *fixture) start(ctx context.Context) *certificate.Rotator {
	GinkgoHelper()
	r := certificate.NewRotator(f.options)
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- r.Start(run) }()
	DeferCleanup(func(ctx SpecContext) {
		stop()
		Eventually(ctx, ended).Should(Receive(BeNil()))
	})
	return r
}

func (f *fixture) secret(ctx context.Context) *corev1.Secret {
	secret := &corev1.Secret{}
	_ = api.Get(ctx, client.ObjectKey{Namespace: f.options.Namespace, Name: f.options.Secret}, secret)
	return secret
}

func (f *fixture) configuration(ctx context.Context) *admissionregistrationv1.ValidatingWebhookConfiguration {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	_ = api.Get(ctx, client.ObjectKey{Name: f.options.Configuration}, configuration)
	return configuration
}

func (f *fixture) bundle(ctx context.Context) []byte {
	configuration := f.configuration(ctx)
	if len(configuration.Webhooks) == 0 {
		return nil
	}
	return configuration.Webhooks[0].ClientConfig.CABundle
}

// served returns the certificate that the rotator serves, and an error if the API
// server would not trust it.
func (f *fixture) served(ctx context.Context, r *certificate.Rotator) (*x509.Certificate, error) {
	cert, err := r.GetCertificate(nil)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(f.bundle(ctx))
	_, err = cert.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots})
	return cert.Leaf, err
}

// awaitTrust waits until the API server trusts the certificate that the rotator serves.
func (f *fixture) awaitTrust(ctx context.Context, r *certificate.Rotator) (leaf *x509.Certificate) {
	GinkgoHelper()
	Eventually(ctx, func() (err error) { leaf, err = f.served(ctx, r); return err }).Should(Succeed())
	return leaf
}

var _ = Describe("The certificate of the webhook", func() {
	It("is issued, stored in the Secret and trusted by the API server", func(ctx SpecContext) {
		f := newFixture(ctx)
		f.configure(ctx)
		r := f.start(ctx)
		leaf := f.awaitTrust(ctx, r)
		Expect(leaf.NotAfter).To(BeTemporally("~", time.Now().Add(90*24*time.Hour), time.Minute))
		secret := f.secret(ctx)
		Expect(secret.Type).To(Equal(corev1.SecretTypeTLS))
		Expect(secret.Data).To(And(HaveKey("ca.crt"), HaveKey("ca.key"), HaveKey("tls.crt"), HaveKey("tls.key")))
		Expect(f.configuration(ctx).Webhooks[0].MatchConditions).To(HaveLen(1), "nothing else was changed")

		again := f.start(ctx)
		Expect(f.awaitTrust(ctx, again)).To(Equal(leaf), "another process serves the same")
	})

	It("is issued before the webhook is configured, and trusted once it is", func(ctx SpecContext) {
		f := newFixture(ctx)
		r := f.start(ctx)
		Eventually(ctx, func() error { _, err := r.GetCertificate(nil); return err }).Should(Succeed())
		f.configure(ctx)
		f.awaitTrust(ctx, r)
		Expect(f.log.String()).NotTo(ContainSubstring("Failed to maintain the webhook certificate"))
	})

	It("is renewed, with its CA, and trusted by the API server at every moment", func(ctx SpecContext) {
		f := newFixture(ctx)
		f.configure(ctx)
		f.options.Lifetime, f.options.CALifetime = 3*time.Second, 6*time.Second
		both := []*certificate.Rotator{f.start(ctx), f.start(ctx)}
		first := f.awaitTrust(ctx, both[0])
		f.awaitTrust(ctx, both[1])
		ca := f.secret(ctx).Data["ca.crt"]
		Eventually(ctx, func(g Gomega) {
			for _, r := range both {
				leaf, err := f.served(ctx, r)
				if err != nil {
					StopTrying("not trusted").Wrap(err).Now()
				}
				g.Expect(leaf.NotBefore).To(BeTemporally(">", first.NotBefore))
			}
			g.Expect(f.bundle(ctx)).NotTo(BeEmpty())
			g.Expect(bytes.Contains(f.bundle(ctx), ca)).To(BeFalse(), "the first CA has expired")
		}).WithTimeout(30 * time.Second).Should(Succeed())
		Expect(f.log.String()).NotTo(ContainSubstring("Failed to maintain the webhook certificate"))
	}, NodeTimeout(5*time.Minute))

	It("is added to an existing Secret", func(ctx SpecContext) {
		f := newFixture(ctx)
		f.configure(ctx)
		Expect(api.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.options.Namespace, Name: f.options.Secret},
			StringData: map[string]string{"note": "kept"},
		})).To(Succeed())
		f.awaitTrust(ctx, f.start(ctx))
		Expect(f.secret(ctx).Data).To(HaveKeyWithValue("note", []byte("kept")))
	})

	It("is trusted again after another client changed the CA bundle", func(ctx SpecContext) {
		f := newFixture(ctx)
		f.configure(ctx)
		r := f.start(ctx)
		f.awaitTrust(ctx, r)
		want := f.bundle(ctx)
		for _, foreign := range [][]byte{testenv.NewAuthority(GinkgoTB()).PEM, nil} {
			configuration := f.configuration(ctx)
			before := configuration.DeepCopy()
			configuration.Webhooks[0].ClientConfig.CABundle = foreign
			Expect(api.Patch(ctx, configuration, client.MergeFrom(before))).To(Succeed())
			Eventually(ctx, func() []byte { return f.bundle(ctx) }).Should(Equal(want))
		}
	})

	It("is issued again when the Secret is deleted", func(ctx SpecContext) {
		f := newFixture(ctx)
		f.configure(ctx)
		r := f.start(ctx)
		before := f.awaitTrust(ctx, r)
		Expect(api.Delete(ctx, f.secret(ctx))).To(Succeed())
		Eventually(ctx, func() (*x509.Certificate, error) { return f.served(ctx, r) }).ShouldNot(Equal(before))
		f.awaitTrust(ctx, r)
	})

	It("is issued once by concurrent rotators", func(ctx SpecContext) {
		f := newFixture(ctx)
		f.configure(ctx)
		f.options.Interval = 2 * time.Millisecond
		rotators := make([]*certificate.Rotator, 8)
		for i := range rotators {
			rotators[i] = f.start(ctx)
		}
		leaf := f.awaitTrust(ctx, rotators[0])
		for _, r := range rotators {
			Eventually(ctx, func() (*x509.Certificate, error) { return f.served(ctx, r) }).Should(Equal(leaf))
		}
		versions := func() []string {
			return []string{f.secret(ctx).ResourceVersion, f.configuration(ctx).ResourceVersion}
		}
		settled := versions()
		Consistently(ctx, versions).WithTimeout(500 * time.Millisecond).Should(Equal(settled))
		Expect(f.log.String()).NotTo(ContainSubstring("Failed to maintain the webhook certificate"))
	})

	It("needs no more permissions than the manifests grant, and logs a missing one", func(ctx SpecContext) {
		f := newFixture(ctx)
		f.configure(ctx)
		user, err := server.Env.AddUser(envtest.User{Name: "weir-" + f.options.Namespace}, nil)
		Expect(err).NotTo(HaveOccurred())
		f.options.Clients, err = kubernetes.NewForConfig(user.Config())
		Expect(err).NotTo(HaveOccurred())
		r := f.start(ctx)
		Eventually(ctx, f.log.String).Should(And(ContainSubstring("Failed to maintain the webhook certificate"), ContainSubstring("forbidden")))
		_, err = r.GetCertificate(nil)
		Expect(err).To(MatchError(ContainSubstring("no certificate yet")))

		f.grant(ctx, "weir-"+f.options.Namespace)
		f.awaitTrust(ctx, r)
	})
})

// grant binds the manager's roles from the manifests, with the names of the spec, to
// the user.
func (f *fixture) grant(ctx context.Context, user string) {
	GinkgoHelper()
	data, err := os.ReadFile("../../../config/rbac/role.yaml")
	Expect(err).NotTo(HaveOccurred())
	documents := strings.Split(string(data), "---\n")
	Expect(documents).To(HaveLen(3))
	clusterRole, role := &rbacv1.ClusterRole{}, &rbacv1.Role{}
	Expect(yaml.UnmarshalStrict([]byte(documents[1]), clusterRole)).To(Succeed())
	Expect(yaml.UnmarshalStrict([]byte(documents[2]), role)).To(Succeed())
	for i := range clusterRole.Rules {
		if slices.Equal(clusterRole.Rules[i].ResourceNames, []string{"weir"}) {
			clusterRole.Rules[i].ResourceNames = []string{f.options.Configuration}
		}
	}
	clusterRole.Name = f.options.Namespace
	role.Name, role.Namespace = f.options.Namespace, f.options.Namespace
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	for _, object := range []client.Object{
		role, clusterRole,
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name, Namespace: role.Namespace}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: clusterRole.Name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole.Name},
		},
	} {
		Expect(api.Create(ctx, object)).To(Succeed())
	}
}
