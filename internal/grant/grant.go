// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grant reads what the policies of a Namespace may match. The controller
// and the webhook judge by the same facts because they both ask here.
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

// Of returns what the policies of the Namespace may match. A Namespace that is not
// found is an error: where there is a policy there is one, and a cache is about to
// see it.
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
