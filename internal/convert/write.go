// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Write writes the policies as YAML documents for kubectl apply, without a status and
// without the fields that the API server sets.
func Write(w io.Writer, policies []*v1alpha1.RateLimitPolicy) error {
	for _, p := range policies {
		shown := *p
		shown.Status, shown.CreationTimestamp = v1alpha1.RateLimitPolicyStatus{}, metav1.Time{}
		text, err := yaml.Marshal(&shown)
		if err != nil {
			return fmt.Errorf("policy %s/%s: %w", p.Namespace, p.Name, err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
