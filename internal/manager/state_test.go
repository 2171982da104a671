// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/kubeauth"
	"github.com/weir-dev/weir/internal/limiter/frontend/httpapi"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// verbs are the RBAC verbs that the calls on state require.
var verbs = []string{"get", "create", "update", "delete"}

var _ = Describe("The state of keys", Serial, func() {
	var namespace, id string
	BeforeEach(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		id = namespace + "/login"
		policy := testpolicy.Make(id).Limit("hourly", v1alpha1.AlgorithmFixedWindow, 2, "1h").Obj()
		Expect(api.Create(ctx, policy)).To(Succeed())
		Eventually(condition(policy, v1alpha1.ConditionReady)).WithContext(ctx).Should(Equal("True Ready"))
	})

	// call sends the request that requires the verb.
	call := func(token, verb string) (status int, body string) {
		// The checks give a key to a policy without one.
		target := `{"policy":"` + id + `","key":"alice","asGiven":true`
		switch verb {
		case "get":
			return operate(token, http.MethodGet, "/v1/state?policy="+id+"&key=alice&asGiven=true", "")
		case "create":
			return operate(token, http.MethodPost, "/v1/block", target+`,"duration":"10m"}`)
		case "update":
			return operate(token, http.MethodPost, "/v1/unblock", target+"}")
		default:
			return operate(token, http.MethodPost, "/v1/reset", target+"}")
		}
	}
	expect := func(token, verb string, wantStatus int, wantBody string) {
		GinkgoHelper()
		status, body := call(token, verb)
		Expect(status).To(Equal(wantStatus), body)
		Expect(body).To(ContainSubstring(wantBody))
	}
	// allowed waits until a call is allowed: Weir keeps a denial for 10 s.
	allowed := func(ctx context.Context, token, verb string) {
		GinkgoHelper()
		Eventually(ctx, func() int { status, _ := call(token, verb); return status }).Should(Equal(http.StatusOK))
	}

	It("is read and changed by a caller with all verbs", func(ctx SpecContext) {
		token := tokenOf(ctx, namespace, "operator", "weir")
		grant(ctx, namespace, serviceAccount(namespace, "operator"), verbs...)
		allowed(ctx, token, "get")
		Expect([]int{check(id), check(id), check(id)}).To(Equal([]int{200, 200, 429}))
		expect(token, "get", 200, `"used":2`)
		expect(token, "delete", 200, `{"found":true}`)
		Expect(check(id)).To(Equal(200))
		expect(token, "create", 200, `{"found":true}`)
		expect(token, "get", 200, `"blocked":true`)
		Expect(check(id)).To(Equal(429))
		expect(token, "update", 200, `{"found":true}`)
		Expect(check(id)).To(Equal(200))
	})

	It("is closed to a caller without verbs", func(ctx SpecContext) {
		token := tokenOf(ctx, namespace, "stranger", "weir")
		for _, verb := range verbs {
			expect(token, verb, 403, "Forbidden")
		}
		status, _ := operate(token, http.MethodGet, "/v1/state?policy="+namespace+"/nonesuch&key=alice", "")
		Expect(status).To(Equal(403), "the response does not reveal which policies exist")
	})

	It("is closed to a caller with verbs in another namespace", func(ctx SpecContext) {
		other := newNamespace(ctx)
		token := tokenOf(ctx, namespace, "operator", "weir")
		grant(ctx, other, serviceAccount(namespace, "operator"), verbs...)
		Eventually(ctx, func() int {
			status, _ := operate(token, http.MethodGet, "/v1/state?policy="+other+"/nonesuch&key=alice", "")
			return status
		}).Should(Equal(404))
		expect(token, "get", 403, "Forbidden")
	})

	It("is closed to tokens of another audience and to invalid tokens", func(ctx SpecContext) {
		grant(ctx, namespace, serviceAccount(namespace, "operator"), verbs...)
		allowed(ctx, tokenOf(ctx, namespace, "operator", "weir"), "get")
		expect(tokenOf(ctx, namespace, "other", "another-service"), "get", 401, "Unauthenticated")
		expect(tokenOf(ctx, namespace, "default-audience"), "get", 401, "Unauthenticated")
		expect("nonsense", "get", 401, "Unauthenticated")
	})

	for _, right := range verbs {
		It("requires the verb "+right+" for its own call only", func(ctx SpecContext) {
			token := tokenOf(ctx, namespace, "operator", "weir")
			grant(ctx, namespace, serviceAccount(namespace, "operator"), right)
			allowed(ctx, token, right)
			for _, verb := range verbs {
				if verb != right {
					expect(token, verb, 403, "Forbidden")
				}
			}
		})
	}

	It("is open to members of a group with the verb", func(ctx SpecContext) {
		token := tokenOf(ctx, namespace, "operator", "weir")
		grant(ctx, namespace, rbacv1.Subject{
			APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts:" + namespace,
		}, "get")
		allowed(ctx, token, "get")
	})

	It("is listed to a caller with the verb list, without the values of headers unless with reveal", func(ctx SpecContext) {
		policy := testpolicy.Make(namespace+"/keyed").Key(testpolicy.HeaderPart("x-key")).
			Limit("hourly", v1alpha1.AlgorithmFixedWindow, 1, "1h", testpolicy.BlockDuration("10m")).Obj()
		Expect(api.Create(ctx, policy)).To(Succeed())
		Eventually(condition(policy, v1alpha1.ConditionReady)).WithContext(ctx).Should(Equal("True Ready"))
		Expect([]int{check(namespace + "/keyed"), check(namespace + "/keyed")}).To(Equal([]int{200, 429}))
		lister, revealer := tokenOf(ctx, namespace, "lister", "weir"), tokenOf(ctx, namespace, "revealer", "weir")
		grant(ctx, namespace, serviceAccount(namespace, "lister"), "list")
		grant(ctx, namespace, serviceAccount(namespace, "revealer"), "list", "reveal")
		list := func(token, path string) string {
			_, body := operate(token, http.MethodGet, path+"?namespace="+namespace, "")
			return body
		}
		Eventually(ctx, list).WithArguments(lister, "/v1/blocks").Should(And(ContainSubstring(`"limit":"hourly"`), ContainSubstring(`"key":["al…"]`)))
		Eventually(ctx, list).WithArguments(revealer, "/v1/blocks").Should(ContainSubstring(`"key":["alice"]`))
		Expect(list(lister, "/v1/top")).To(And(ContainSubstring(`"count":1`), ContainSubstring(`"reported":["one"],"missing":[]`)))
		status, _ := operate(lister, http.MethodGet, "/v1/blocks?namespace=default", "")
		Expect(status).To(Equal(403))
		expect(lister, "get", 403, "Forbidden")
	})

	It("is explained to a caller with the verb in the namespace of each policy", func(ctx SpecContext) {
		other := newNamespace(ctx)
		foreign := testpolicy.Make(other+"/login").Limit("hourly", v1alpha1.AlgorithmFixedWindow, 2, "1h").Obj()
		Expect(api.Create(ctx, foreign)).To(Succeed())
		Eventually(condition(foreign, v1alpha1.ConditionReady)).WithContext(ctx).Should(Equal("True Ready"))
		token := tokenOf(ctx, namespace, "operator", "weir")
		explain := func(token, check string) (int, string) { return operate(token, http.MethodPost, "/v1/explain", check) }
		byName := func(id string) string { return `{"policies":["` + id + `"],"key":"alice"}` }
		const byAttributes = `{"attributes":{"host":"explained.example"}}`

		// Awaits that the policies of earlier specs are deleted: an explanation reviews the rights in 20 Namespaces only.
		Eventually(ctx, func() (out httptypes.Explanation, err error) {
			_, body := explain(token, byAttributes)
			return out, json.Unmarshal([]byte(body), &out)
		}).Should(HaveField("HiddenNearMisses", BeNumerically("<=", 10)))
		status, body := explain(token, byAttributes)
		Expect(status).To(Equal(http.StatusOK), body)
		Expect(body).NotTo(Or(ContainSubstring(namespace), ContainSubstring(other)))
		Expect(body).NotTo(ContainSubstring(`"hiddenNearMisses":0`))
		status, body = explain(token, byName(id))
		Expect(status).To(Equal(http.StatusForbidden), body)

		grant(ctx, namespace, serviceAccount(namespace, "operator"), "get")
		Eventually(ctx, func() int { status, _ := explain(token, byName(id)); return status }).Should(Equal(http.StatusOK))
		status, body = explain(token, byName(id))
		Expect(status).To(Equal(http.StatusOK), body)
		Expect(body).To(And(ContainSubstring(`"policy":"`+id+`"`), ContainSubstring(`"remaining":2`)))
		status, body = explain(token, byAttributes)
		Expect(status).To(Equal(http.StatusOK), body)
		Expect(body).To(ContainSubstring(`{"policy":"` + id + `","reason":"ByNameOnly"}`))
		Expect(body).NotTo(ContainSubstring(other))
		status, body = explain(token, byName(other+"/login"))
		Expect(status).To(Equal(http.StatusForbidden), body)
		status, body = explain(token, byName(other+"/nonesuch"))
		Expect(status).To(Equal(http.StatusForbidden), body)
	})

	It("is unavailable while the API server is down, and decisions continue", func(ctx SpecContext) {
		token := tokenOf(ctx, namespace, "operator", "weir")
		grant(ctx, namespace, serviceAccount(namespace, "operator"), verbs...)
		allowed(ctx, token, "get")
		unknown := tokenOf(ctx, namespace, "another", "weir") // Weir keeps no answer about it
		apiServer.Stop()
		for _, verb := range verbs {
			expect(unknown, verb, 503, "Unavailable")
		}
		Expect([]int{check(id), check(id), check(id)}).To(Equal([]int{200, 200, 429}))
		apiServer.Start()
		allowed(ctx, token, "get")
		// The following specs need the controller.
		after := testpolicy.Make(namespace+"/after").Limit("hourly", v1alpha1.AlgorithmFixedWindow, 2, "1h").Obj()
		Eventually(ctx, func() error { return api.Create(ctx, after) }).Should(Succeed())
		Eventually(condition(after, v1alpha1.ConditionReady)).WithContext(ctx).Should(Equal("True Ready"))
	})

	It("needs no more permissions on the API server than the ClusterRole of Weir grants", func(ctx SpecContext) {
		role := clusterRole()
		Expect(api.Create(ctx, role)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, role)).To(Succeed()) })
		config := rest.AnonymousClientConfig(apiServer.Config)
		config.BearerToken = tokenOf(ctx, namespace, "weir")
		authorizer, err := kubeauth.New(config)
		Expect(err).NotTo(HaveOccurred())
		token := tokenOf(ctx, namespace, "operator", "weir")
		ask := func() error {
			_, err := authorizer.Authorize(ctx, token, httpapi.VerbInspect, namespace, "login")
			return err
		}
		Expect(ask()).To(And(MatchError(ContainSubstring("token review")), Not(MatchError(httpapi.ErrForbidden))),
			"an error of Weir is not reported as one of the caller")
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace},
			Subjects:   []rbacv1.Subject{serviceAccount(namespace, "weir")},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		}
		Expect(api.Create(ctx, binding)).To(Succeed())
		Eventually(ctx, ask).Should(MatchError(httpapi.ErrForbidden))
	})
})

// operate sends a call with the token and returns the status and the body.
func operate(token, method, target, body string) (int, string) {
	request, err := http.NewRequest(method, "http://"+checks+target, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+token)
	return send(request)
}

func serviceAccount(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// tokenOf creates the ServiceAccount and a token of it for the audiences (default:
// the API server).
func tokenOf(ctx context.Context, namespace, name string, audiences ...string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	Expect(api.Create(ctx, account)).To(Succeed())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	Expect(api.SubResource("token").Create(ctx, account, request)).To(Succeed())
	return request.Status.Token
}

// grant binds the verbs on the state of the namespace's policies to the subject, and waits
// until the API server applies the binding.
func grant(ctx context.Context, namespace string, subject rbacv1.Subject, verbs ...string) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "state-" + subject.Name}
	Expect(api.Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"ratelimit.weir.dev"}, Resources: []string{"ratelimitpolicies/state"}, Verbs: verbs,
	}}})).To(Succeed())
	Expect(api.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	})).To(Succeed())
	bearer := authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
		Group: "ratelimit.weir.dev", Resource: "ratelimitpolicies", Subresource: "state", Namespace: namespace, Verb: verbs[0],
	}}
	if subject.Kind == rbacv1.GroupKind {
		bearer.Groups = []string{subject.Name}
	} else {
		bearer.User = "system:serviceaccount:" + subject.Namespace + ":" + subject.Name
	}
	Eventually(ctx, func(ctx context.Context) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: bearer}
		Expect(api.Create(ctx, review)).To(Succeed())
		return review.Status.Allowed
	}).Should(BeTrue())
}

// clusterRole returns the ClusterRole generated from the markers in the code.
func clusterRole() *rbacv1.ClusterRole {
	GinkgoHelper()
	text, err := os.ReadFile("../../config/rbac/role.yaml")
	Expect(err).NotTo(HaveOccurred())
	role := &rbacv1.ClusterRole{}
	Expect(yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096).Decode(role)).To(Succeed())
	Expect(role.Kind).To(Equal("ClusterRole"))
	return role
}
