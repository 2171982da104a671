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
	"github.com/weir-dev/weir/internal/testenv"
	"github.com/weir-dev/weir/internal/webhook/certificate"
)

func TestCertificate(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Certificate")
}

var (
	server *testenv.APIServer
	api    client.Client
	admin  kubernetes.Interface
)

var _ = BeforeSuite(func() {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(10 * time.Second)
	SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	server = testenv.StartAPIServer(GinkgoTB())
	api = server.Client()
	var err error
	admin, err = kubernetes.NewForConfig(server.Config)
	Expect(err).NotTo(HaveOccurred())
})

const name = "weir-webhook.weir-system.svc"

// story is a Namespace and a webhook configuration of its own, with the rotators
// that look after them.
type story struct {
	options certificate.Options
	log     *testenv.Log
}

func newStory(ctx context.Context) *story {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "story-"}}
	Expect(api.Create(ctx, namespace)).To(Succeed())
	s := &story{log: &testenv.Log{}}
	s.options = certificate.Options{
		Names: []string{name}, Namespace: namespace.Name, Secret: "weir-webhook", Configuration: namespace.Name,
		Clients: admin, Logger: slog.New(slog.NewTextHandler(s.log, nil)), Now: time.Now, Interval: 20 * time.Millisecond,
	}
	return s
}

// configure applies the webhook configuration of the release under the story's name.
func (s *story) configure(ctx context.Context) {
	GinkgoHelper()
	configuration, err := webhook.Configuration()
	Expect(err).NotTo(HaveOccurred())
	configuration.Name = s.options.Configuration
	Expect(api.Create(ctx, configuration)).To(Succeed())
	DeferCleanup(api.Delete, configuration)
}

// start runs a rotator until the story ends.
func (s *story) start(ctx context.Context) *certificate.Rotator {
	GinkgoHelper()
	r := certificate.NewRotator(s.options)
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- r.Start(run) }()
	DeferCleanup(func(ctx SpecContext) {
		stop()
		Eventually(ctx, ended).Should(Receive(BeNil()))
	})
	return r
}

func (s *story) secret(ctx context.Context) *corev1.Secret {
	secret := &corev1.Secret{}
	_ = api.Get(ctx, client.ObjectKey{Namespace: s.options.Namespace, Name: s.options.Secret}, secret)
	return secret
}

func (s *story) configuration(ctx context.Context) *admissionregistrationv1.ValidatingWebhookConfiguration {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	_ = api.Get(ctx, client.ObjectKey{Name: s.options.Configuration}, configuration)
	return configuration
}

func (s *story) bundle(ctx context.Context) []byte {
	configuration := s.configuration(ctx)
	if len(configuration.Webhooks) == 0 {
		return nil
	}
	return configuration.Webhooks[0].ClientConfig.CABundle
}

// shown is the certificate that the rotator shows, if the API server would trust it.
func (s *story) shown(ctx context.Context, r *certificate.Rotator) (*x509.Certificate, error) {
	shown, err := r.GetCertificate(nil)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.bundle(ctx))
	_, err = shown.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots})
	return shown.Leaf, err
}

// isTrusted waits until the API server trusts what the rotator shows.
func (s *story) isTrusted(ctx context.Context, r *certificate.Rotator) (leaf *x509.Certificate) {
	GinkgoHelper()
	Eventually(ctx, func() (err error) { leaf, err = s.shown(ctx, r); return err }).Should(Succeed())
	return leaf
}

var _ = Describe("The certificate of the webhook", func() {
	It("is made, kept in the Secret and trusted by the API server", func(ctx SpecContext) {
		s := newStory(ctx)
		s.configure(ctx)
		r := s.start(ctx)
		leaf := s.isTrusted(ctx, r)
		Expect(leaf.NotAfter).To(BeTemporally("~", time.Now().Add(90*24*time.Hour), time.Minute))
		secret := s.secret(ctx)
		Expect(secret.Type).To(Equal(corev1.SecretTypeTLS))
		Expect(secret.Data).To(And(HaveKey("ca.crt"), HaveKey("ca.key"), HaveKey("tls.crt"), HaveKey("tls.key")))
		Expect(s.configuration(ctx).Webhooks[0].MatchConditions).To(HaveLen(1), "nothing else was changed")

		again := s.start(ctx)
		Expect(s.isTrusted(ctx, again)).To(Equal(leaf), "another process shows the same")
	})

	It("is there before the webhook is configured, and trusted once it is", func(ctx SpecContext) {
		s := newStory(ctx)
		r := s.start(ctx)
		Eventually(ctx, func() error { _, err := r.GetCertificate(nil); return err }).Should(Succeed())
		s.configure(ctx)
		s.isTrusted(ctx, r)
		Expect(s.log.String()).NotTo(ContainSubstring("cannot be kept up"))
	})

	It("is renewed, with its authority, and every moment trusted by the API server", func(ctx SpecContext) {
		s := newStory(ctx)
		s.configure(ctx)
		s.options.Lifetime, s.options.CALifetime = 3*time.Second, 6*time.Second
		both := []*certificate.Rotator{s.start(ctx), s.start(ctx)}
		first := s.isTrusted(ctx, both[0])
		s.isTrusted(ctx, both[1])
		authority := s.secret(ctx).Data["ca.crt"]
		Eventually(ctx, func(g Gomega) {
			for _, r := range both {
				leaf, err := s.shown(ctx, r)
				if err != nil {
					StopTrying("it is not trusted").Wrap(err).Now()
				}
				g.Expect(leaf.NotBefore).To(BeTemporally(">", first.NotBefore))
			}
			g.Expect(s.bundle(ctx)).NotTo(BeEmpty())
			g.Expect(bytes.Contains(s.bundle(ctx), authority)).To(BeFalse(), "the first authority has ended")
		}).WithTimeout(20 * time.Second).Should(Succeed())
		Expect(s.log.String()).NotTo(ContainSubstring("cannot be kept up"))
	}, NodeTimeout(30*time.Second))

	It("is put into a Secret that somebody has made for it", func(ctx SpecContext) {
		s := newStory(ctx)
		s.configure(ctx)
		Expect(api.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.options.Namespace, Name: s.options.Secret},
			StringData: map[string]string{"note": "kept"},
		})).To(Succeed())
		s.isTrusted(ctx, s.start(ctx))
		Expect(s.secret(ctx).Data).To(HaveKeyWithValue("note", []byte("kept")))
	})

	It("is trusted again after somebody told the API server otherwise", func(ctx SpecContext) {
		s := newStory(ctx)
		s.configure(ctx)
		r := s.start(ctx)
		s.isTrusted(ctx, r)
		want := s.bundle(ctx)
		for _, foreign := range [][]byte{testenv.NewAuthority(GinkgoTB()).PEM, nil} {
			configuration := s.configuration(ctx)
			before := configuration.DeepCopy()
			configuration.Webhooks[0].ClientConfig.CABundle = foreign
			Expect(api.Patch(ctx, configuration, client.MergeFrom(before))).To(Succeed())
			Eventually(ctx, func() []byte { return s.bundle(ctx) }).Should(Equal(want))
		}
	})

	It("is made anew when the Secret is lost", func(ctx SpecContext) {
		s := newStory(ctx)
		s.configure(ctx)
		r := s.start(ctx)
		before := s.isTrusted(ctx, r)
		Expect(api.Delete(ctx, s.secret(ctx))).To(Succeed())
		Eventually(ctx, func() (*x509.Certificate, error) { return s.shown(ctx, r) }).ShouldNot(Equal(before))
		s.isTrusted(ctx, r)
	})

	It("is made once by many at the same time, who then leave it alone", func(ctx SpecContext) {
		s := newStory(ctx)
		s.configure(ctx)
		s.options.Interval = 2 * time.Millisecond
		rotators := make([]*certificate.Rotator, 8)
		for i := range rotators {
			rotators[i] = s.start(ctx)
		}
		leaf := s.isTrusted(ctx, rotators[0])
		for _, r := range rotators {
			Eventually(ctx, func() (*x509.Certificate, error) { return s.shown(ctx, r) }).Should(Equal(leaf))
		}
		versions := func() []string {
			return []string{s.secret(ctx).ResourceVersion, s.configuration(ctx).ResourceVersion}
		}
		settled := versions()
		Consistently(ctx, versions).WithTimeout(500 * time.Millisecond).Should(Equal(settled))
		Expect(s.log.String()).NotTo(ContainSubstring("cannot be kept up"))
	})

	It("needs no more rights than the manifests give, and says which are missing", func(ctx SpecContext) {
		s := newStory(ctx)
		s.configure(ctx)
		user, err := server.Env.AddUser(envtest.User{Name: "weir-" + s.options.Namespace}, nil)
		Expect(err).NotTo(HaveOccurred())
		s.options.Clients, err = kubernetes.NewForConfig(user.Config())
		Expect(err).NotTo(HaveOccurred())
		r := s.start(ctx)
		Eventually(ctx, s.log.String).Should(And(ContainSubstring("cannot be kept up"), ContainSubstring("forbidden")))
		_, err = r.GetCertificate(nil)
		Expect(err).To(MatchError(ContainSubstring("no certificate yet")))

		s.grant(ctx, "weir-"+s.options.Namespace)
		s.isTrusted(ctx, r)
	})
})

// grant gives the user what the manifests give the manager, for the names of the
// story.
func (s *story) grant(ctx context.Context, user string) {
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
			clusterRole.Rules[i].ResourceNames = []string{s.options.Configuration}
		}
	}
	role.Name, role.Namespace, clusterRole.Name = s.options.Namespace, s.options.Namespace, s.options.Namespace
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
