// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grant reads which hosts and domains the policies of a Namespace may match,
// for the controller and the webhook alike.
package grant

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/internal/compile"
)

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Of returns the grant of the Namespace. A Namespace that is not found is an error: it
// has a policy, so it exists and the cache only lags behind.
func Of(ctx context.Context, reader client.Reader, tenancy compile.Tenancy, namespace string) (compile.Grant, error) {
	if tenancy != compile.TenancyNamespace {
		return compile.Everything(), nil
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := reader.Get(ctx, types.NamespacedName{Name: namespace}, metadata); err != nil {
		return compile.Grant{}, err
	}
	return compile.GrantOf(metadata.Annotations), nil
}
