// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// The cache has a key group without copies of its keys, and all else of it.
func TestCompactKeys(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	group := &v1alpha1.RateLimitKeyGroup{
		ObjectMeta: metav1.ObjectMeta{
			Name: "gold-07", Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{}}`, "team": "shop"},
			Labels: map[string]string{"app": "shop"}, Finalizers: []string{"a/b"}, OwnerReferences: []metav1.OwnerReference{{Name: "x"}},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: v1alpha1.RateLimitKeyGroupSpec{Group: "gold", Keys: []string{"globex", "acme", "globex", "ü"}},
	}
	for range 2 { // a cache may transform an object again
		compacted, err := compactKeys(group)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(compacted).To(Equal(&v1alpha1.RateLimitKeyGroup{
			ObjectMeta: metav1.ObjectMeta{Name: "gold-07"},
			Spec:       v1alpha1.RateLimitKeyGroupSpec{Group: "gold", Keys: []string{"globex", "acme", "globex", "ü"}},
		}))
	}
	g.Expect(compactKeys("a tombstone")).To(Equal("a tombstone"))
}

// The cache has a policy without the copies of its fields and without metadata that nothing reads, and all else of it.
func TestCompactPolicy(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	policy := testpolicy.Make("shop/login").Limit("hourly", v1alpha1.AlgorithmFixedWindow, 5, "1h").Obj()
	policy.Annotations = map[string]string{v1alpha1.ShadowUntilAnnotation: "2026-12-01T06:00:00Z"}
	policy.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready", Message: "It is ready."}}
	want := policy.DeepCopy()
	policy.Annotations[corev1.LastAppliedConfigAnnotation] = `{"spec":{}}`
	policy.Annotations["team"] = "shop"
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

// 1,000 policies with 256 KiB of annotations each, and as many labels, take no more memory than policies without them.
func TestMetadataThatNothingReadsTakesNoMemory(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	size := func(object any) int {
		data, err := json.Marshal(object)
		g.Expect(err).NotTo(HaveOccurred())
		return len(data)
	}
	const most = 256 << 10 // bytes of annotations that an API server stores
	for _, object := range []metav1.Object{
		testpolicy.Make("shop/login").Obj(), &v1alpha1.RateLimitKeyGroup{}, &v1alpha1.RateLimitException{}, &metav1.PartialObjectMetadata{},
	} {
		for _, name := range []string{"team", v1alpha1.ReconcileRequestedAtAnnotation, v1alpha1.ShadowUntilAnnotation} {
			object.SetAnnotations(map[string]string{name: strings.Repeat("x", most)})
			object.SetLabels(map[string]string{"a": strings.Repeat("x", 63)})
			compacted, err := compact(object)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(size(compacted)).To(BeNumerically("<", 4<<10), name)
		}
	}
	namespace := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		compile.HostsAnnotation: strings.Repeat("a.example,", 1000), compile.DomainsAnnotation: "edge",
	}}}
	want := namespace.DeepCopy()
	g.Expect(compact(namespace)).To(Equal(want), "grants are whole")
}
