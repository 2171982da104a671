// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
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
