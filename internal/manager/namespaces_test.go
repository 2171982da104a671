// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/testenv/testpolicy"
)

// The cache has a key group without copies of its keys, and all else of it.
func TestCompactKeys(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	group := &v1alpha1.RateLimitKeyGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name: "gold-07", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{}}`, "team": "shop"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: v1alpha1.RateLimitKeyGroupSpec{Group: "gold", Keys: []string{"globex", "acme", "globex", "ü"}},
	}
	for range 2 { // a cache may transform an object again
		compacted, err := compactKeys(group)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(compacted).To(Equal(&v1alpha1.RateLimitKeyGroup{
			ObjectMeta: metav1.ObjectMeta{Name: "gold-07", Annotations: map[string]string{"team": "shop"}},
			Spec:       v1alpha1.RateLimitKeyGroupSpec{Group: "gold", Keys: []string{"globex", "acme", "globex", "ü"}},
		}))
	}
	g.Expect(compactKeys("a tombstone")).To(Equal("a tombstone"))
}

// The cache has a policy without the copies of its fields, and all else of it.
func TestCompactPolicy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	policy := testpolicy.Make("shop/login").Limit("hourly", v1alpha1.AlgorithmFixedWindow, 5, "1h").Obj()
	policy.Annotations = map[string]string{"team": "shop"}
	policy.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready", Message: "It is ready."}}
	want := policy.DeepCopy()
	policy.Annotations[corev1.LastAppliedConfigAnnotation] = `{"spec":{}}`
	policy.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	policy.Spec.Limits = append(make([]v1alpha1.Limit, 0, 4), policy.Spec.Limits...)
	for range 2 { // a cache may transform an object again
		compacted, err := compactPolicy(policy)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(compacted).To(Equal(want))
		policy = compacted.(*v1alpha1.RateLimitPolicy)
		g.Expect(policy.Spec.Limits).To(HaveCap(1))
	}
	g.Expect(compactPolicy("a tombstone")).To(Equal("a tombstone"))

	exception := &v1alpha1.RateLimitException{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{}}`}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}}
	_, err := compact(exception)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(exception.Annotations).To(BeEmpty())
	g.Expect(exception.ManagedFields).To(BeNil())
}
