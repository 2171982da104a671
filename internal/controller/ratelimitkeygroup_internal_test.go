// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// storedGroup is an API server with at most one key group.
type storedGroup struct {
	client.Reader
	group *v1alpha1.RateLimitKeyGroup
	reads int
}

func (s *storedGroup) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.reads++
	if s.group == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, name.Name)
	}
	*into.(*v1alpha1.RateLimitKeyGroup) = *s.group.DeepCopy() //nolint:forcetypeassert // the only kind here
	return nil
}

func TestOmittedKeysAreReadFromTheAPIServer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	group := &v1alpha1.RateLimitKeyGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "gold-0", UID: "u", Generation: 3},
		Spec:       v1alpha1.RateLimitKeyGroupSpec{Group: "gold", Keys: []string{"globex", "acme"}},
	}
	server := &storedGroup{group: group}
	r, cached := &Reconciler{uncached: server}, group.DeepCopy()
	compiled, err := r.compileKeyGroup(t.Context(), cached)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.reads).To(BeZero())
	compile.OmitKeys(cached)
	again, err := r.compileKeyGroup(t.Context(), cached)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.record).To(Equal(compiled.record))
	g.Expect(again.record.(*plan.KeyGroup).Keys.Len()).To(Equal(2))
	g.Expect(keyGroupStatus(cached, &facts{}).status.(*v1alpha1.RateLimitKeyGroupStatus).KeyCount).To(HaveValue(BeEquivalentTo(2)))

	server.group.Generation = 4
	_, err = r.compileKeyGroup(t.Context(), cached)
	g.Expect(err).To(MatchError(errCacheBehind), "the record must be of the generation that the cache has")
	server.group = nil
	_, err = r.compileKeyGroup(t.Context(), cached)
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
}
