// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/test/testenv/kube"
)

// access returns the values that give jane and the group sre the role in Namespace shop.
func access(account, role string) string {
	return fmt.Sprintf("access[0].name=%s,access[0].role=%s,access[0].namespaces={shop},"+
		"access[0].subjects[0].kind=User,access[0].subjects[0].name=jane,access[0].subjects[1].kind=Group,access[0].subjects[1].name=sre", account, role)
}

// may reports whether the API server permits the verb.
func may(ctx context.Context, g *WithT, api client.Client, user string, groups []string, a authorizationv1.ResourceAttributes) bool {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: &a}}
	g.Expect(api.Create(ctx, review)).To(Succeed())
	return review.Status.Allowed
}

// The API server grants the account its role on keys in the named Namespaces, and the subjects
// the tokens of this account, and nothing else.
func TestAccessIsWhatTheSubjectsNeed(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	server := kube.StartAPIServer(t)
	api := server.Client()
	for _, name := range []string{"weir-system", "shop", "bank"} {
		g.Expect(api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	}
	for _, object := range render(t, "weir", redisURL, access("on-call", "inspect")) {
		switch object.GetKind() {
		case "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding":
			g.Expect(api.Create(ctx, object.DeepCopy())).To(Succeed(), id(object))
		}
	}
	keys := func(verb, namespace string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{
			Group: "ratelimit.weir.dev", Resource: "ratelimitpolicies", Subresource: "state", Verb: verb, Namespace: namespace, Name: "login",
		}
	}
	const account = "system:serviceaccount:weir-system:on-call"
	g.Eventually(func() bool { return may(ctx, g, api, account, nil, keys("get", "shop")) }).Should(BeTrue())
	g.Expect(may(ctx, g, api, account, nil, keys("get", "bank"))).To(BeFalse())
	for _, verb := range []string{"list", "create", "update", "delete"} {
		g.Expect(may(ctx, g, api, account, nil, keys(verb, "shop"))).To(BeFalse(), "%s needs the role operator", verb)
	}
	g.Expect(may(ctx, g, api, "jane", nil, keys("get", "shop"))).To(BeFalse(), "only with a token of the account")
	for _, forward := range []authorizationv1.ResourceAttributes{
		{Resource: "pods", Subresource: "portforward", Verb: "create", Namespace: "weir-system", Name: "weir-manager-a-b"},
		{Resource: "pods", Verb: "list", Namespace: "weir-system"},
		{Resource: "serviceaccounts", Verb: "list", Namespace: "weir-system"},
		{Resource: "services", Verb: "get", Namespace: "weir-system", Name: "weir"},
		{Group: "apps", Resource: "deployments", Verb: "get", Namespace: "weir-system", Name: "weir-manager"},
	} {
		g.Expect(may(ctx, g, api, "ann", []string{"sre"}, forward)).To(BeTrue(), "%+v", forward)
		forward.Namespace = "shop"
		g.Expect(may(ctx, g, api, "ann", []string{"sre"}, forward)).To(BeFalse(), "%+v", forward)
	}
	accounts := &corev1.ServiceAccountList{}
	g.Expect(api.List(ctx, accounts, client.InNamespace("weir-system"), client.MatchingLabels{"ratelimit.weir.dev/access": "true"})).To(Succeed())
	g.Expect(accounts.Items).To(ConsistOf(HaveField("Name", "on-call")), "kubectl weir finds the account by the label, and no other")
	expectTokens(t, server)
}

// expectTokens expects that jane gets tokens of the account on-call and of no other.
func expectTokens(t *testing.T, server *kube.APIServer) {
	t.Helper()
	g := NewWithT(t)
	config := rest.CopyConfig(server.Config)
	config.Impersonate.UserName = "jane"
	jane, err := client.New(config, client.Options{Scheme: server.Env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	token := func(account string) error {
		object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: account}}
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"weir"}}}
		return jane.SubResource("token").Create(t.Context(), object, request)
	}
	g.Expect(token("on-call")).To(Succeed())
	g.Expect(token("weir")).To(MatchError(apierrors.IsForbidden, "forbidden"))
}

// Header values in keys are revealed to an account only if its entry asks for it.
func TestRevealIsOptIn(t *testing.T) {
	g := NewWithT(t)
	roles := func(more ...string) (roles []string) {
		m := render(t, "edge", append([]string{redisURL, access("on-call", "operator")}, more...)...)
		for _, binding := range of[rbacv1.RoleBinding](t, m, "RoleBinding") {
			if binding.Namespace == "shop" {
				roles = append(roles, binding.RoleRef.Name)
			}
		}
		return roles
	}
	g.Expect(roles()).To(ConsistOf("edge-weir-operator", "edge-weir-exceptions"))
	g.Expect(roles("access[0].reveal=true")).To(ConsistOf("edge-weir-operator", "edge-weir-exceptions", "edge-weir-reveal"))
}

// Another role needs another binding, since Kubernetes rejects a change of the role.
func TestAnotherRoleIsAnotherBinding(t *testing.T) {
	g := NewWithT(t)
	name := func(role string) string {
		m := render(t, "edge", redisURL, access("on-call", role), "split.enabled=true")
		for _, binding := range of[rbacv1.RoleBinding](t, m, "RoleBinding") {
			if binding.Namespace == "shop" {
				g.Expect(binding.RoleRef.Name).To(Equal("edge-weir-" + role))
				return binding.Name
			}
		}
		t.Fatal("no binding in shop")
		return ""
	}
	g.Expect(name("inspect")).NotTo(Equal(name("operator")))
	for _, role := range of[rbacv1.Role](t, render(t, "edge", redisURL, access("on-call", "inspect"), "split.enabled=true"), "Role") {
		if role.Name == "edge-weir-access-on-call" {
			g.Expect(lines(role.Rules)).To(ContainElements("create /serviceaccounts/token on-call", "get apps/deployments edge-weir-decision"))
		}
	}
}
