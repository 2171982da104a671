// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func podOf(name string, ready corev1.ConditionStatus, deleted bool) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: name, Labels: map[string]string{"ratelimit.weir.dev/decisions": "true"}},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
	}
	if deleted {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{}, []string{"x"}
	}
	return p
}

func TestReadyPodIsFound(t *testing.T) {
	other := podOf("a-redis", corev1.ConditionTrue, false)
	other.Labels = nil
	for name, tc := range map[string]struct {
		pods []runtime.Object
		want string
		err  string
	}{
		"one is ready": {[]runtime.Object{other, podOf("a", corev1.ConditionFalse, false), podOf("b", corev1.ConditionTrue, true), podOf("c", corev1.ConditionTrue, false)}, "c", ""},
		"none is ready": {
			[]runtime.Object{podOf("a", corev1.ConditionFalse, false)},
			"",
			"none of the 1 pods of Weir in weir-system is ready: see kubectl -n weir-system get pods",
		},
		"no pod": {
			[]runtime.Object{other},
			"",
			"no pod in weir-system has the label ratelimit.weir.dev/decisions=true: if Weir runs elsewhere, set --weir-namespace",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := (&Connection{WeirNamespace: "weir-system"}).readyPod(t.Context(), fake.NewClientset(tc.pods...))
			g.Expect(got).To(Equal(tc.want))
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
			}
		})
	}
}

func account(name string, access bool) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "weir-system", Name: name}}
	if access {
		a.Labels = map[string]string{"ratelimit.weir.dev/access": "true"}
	}
	return a
}

func TestTokenIsOfTheFirstPermittedAccount(t *testing.T) {
	all := []runtime.Object{account("a-weir", false), account("auditors", true), account("on-call", true)}
	for name, tc := range map[string]struct {
		accounts  []runtime.Object
		flag      string
		permitted string
		want, err string
	}{
		"the second":             {all, "", "on-call", "on-call", ""},
		"without the label":      {all, "", "a-weir", "", "you may not create tokens of auditors, on-call in weir-system: ask to be a subject of one in the chart value access"},
		"named":                  {all, "on-call", "on-call", "on-call", ""},
		"named, without a label": {all, "a-weir", "a-weir", "a-weir", ""},
		"named, but not permitted": {
			all, "auditors", "on-call", "",
			`--account auditors: serviceaccounts "auditors" is forbidden: no; ask to be a subject of it in the chart value access`,
		},
		"no accounts": {
			all[:1], "", "on-call", "",
			"no ServiceAccount in weir-system has rights on keys: kubectl weir access --role operator -n NAMESPACE prints the manifests of one; " +
				"or set the chart value access, name one with --account, or use --token-file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, kube := NewWithT(t), fake.NewClientset(tc.accounts...)
			kube.PrependReactor("create", "serviceaccounts", func(a clienttesting.Action) (bool, runtime.Object, error) {
				create := a.(clienttesting.CreateActionImpl)
				if create.Name != tc.permitted {
					return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, create.Name, errors.New("no"))
				}
				request := create.Object.(*authenticationv1.TokenRequest).DeepCopy()
				g.Expect(request.Spec.Audiences).To(Equal([]string{"weir"}))
				g.Expect(*request.Spec.ExpirationSeconds).To(Equal(int64(600)))
				request.Status.Token = "of " + create.Name
				return true, request, nil
			})
			got, token, err := (&Connection{WeirNamespace: "weir-system", account: tc.flag}).accountToken(t.Context(), kube)
			g.Expect(got).To(Equal(tc.want))
			if tc.err != "" {
				g.Expect(err).To(MatchError(tc.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(token).To(Equal("of " + tc.want))
		})
	}
}
