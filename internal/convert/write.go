// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Write writes the policies as YAML documents for kubectl apply, without a status and
// without the fields that the API server sets.
func Write(w io.Writer, policies []*v1alpha1.RateLimitPolicy) error {
	for _, p := range policies {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
		if err != nil {
			return fmt.Errorf("policy %s/%s: %w", p.Namespace, p.Name, err)
		}
		delete(object, "status")
		if metadata, ok := object["metadata"].(map[string]any); ok {
			delete(metadata, "creationTimestamp")
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("policy %s/%s: %w", p.Namespace, p.Name, err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
