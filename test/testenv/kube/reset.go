// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"strings"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// notBootstrapped selects the ClusterRoles that tests have created: the API server labels its own.
const notBootstrapped = "kubernetes.io/bootstrapping!=rbac-defaults"

// reset removes the objects of all kinds below, webhooks first. No controllers run, so a deleted Namespace would stay
// terminating: Namespaces stay, without annotations and labels. A test that creates other kinds must delete its objects.
func (s *APIServer) reset() {
	s.tb.Helper()
	g, c := NewWithT(s.tb), s.Client()
	for _, kind := range []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, &admissionregistrationv1.ValidatingAdmissionPolicy{},
	} {
		g.Expect(c.DeleteAllOf(s.tb.Context(), kind)).To(Succeed())
	}
	selector, err := labels.Parse(notBootstrapped)
	g.Expect(err).NotTo(HaveOccurred())
	for _, kind := range []client.Object{&rbacv1.ClusterRoleBinding{}, &rbacv1.ClusterRole{}} {
		g.Expect(c.DeleteAllOf(s.tb.Context(), kind, client.MatchingLabelsSelector{Selector: selector})).To(Succeed())
	}
	namespaces := &corev1.NamespaceList{}
	g.Expect(c.List(s.tb.Context(), namespaces)).To(Succeed())
	for _, namespace := range namespaces.Items {
		if strings.HasPrefix(namespace.Name, "kube-") {
			continue
		}
		s.empty(g, c, namespace)
	}
	// Readers of the watch cache find none of them either.
	for _, list := range []client.ObjectList{&v1alpha1.RateLimitPolicyList{}, &v1alpha1.RateLimitKeyGroupList{}, &v1alpha1.RateLimitExceptionList{}} {
		g.Eventually(func() (*metav1.PartialObjectMetadataList, error) {
			cached := &metav1.PartialObjectMetadataList{}
			kinds, _, err := s.Env.Scheme.ObjectKinds(list)
			g.Expect(err).NotTo(HaveOccurred())
			cached.SetGroupVersionKind(kinds[0])
			err = c.List(s.tb.Context(), cached, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
			return cached, err
		}, startTimeout).Should(HaveField("Items", BeEmpty()))
	}
}

// empty removes what tests create in the Namespace, and its annotations and labels.
func (s *APIServer) empty(g *WithT, c client.Client, namespace corev1.Namespace) {
	s.tb.Helper()
	for _, kind := range []client.Object{
		&v1alpha1.RateLimitPolicy{}, &v1alpha1.RateLimitKeyGroup{}, &v1alpha1.RateLimitException{},
		&coordinationv1.Lease{}, &eventsv1.Event{}, &corev1.Secret{}, &corev1.ConfigMap{}, &corev1.ServiceAccount{},
		&rbacv1.RoleBinding{}, &rbacv1.Role{},
	} {
		g.Expect(c.DeleteAllOf(s.tb.Context(), kind, client.InNamespace(namespace.Name))).To(Succeed())
	}
	plain := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/labels","value":{}},{"op":"add","path":"/metadata/annotations","value":{}}]`))
	g.Expect(c.Patch(s.tb.Context(), &namespace, plain)).To(Succeed())
}

// CreateNamespace creates a Namespace, unless a former test has.
func (s *APIServer) CreateNamespace(name string) {
	s.tb.Helper()
	err := s.Client().Create(s.tb.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		s.tb.Fatalf("create the Namespace %s: %v", name, err)
	}
}
