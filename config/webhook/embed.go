// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook carries the generated ValidatingWebhookConfiguration, so that
// tests ask the webhook by it.
package webhook

import (
	_ "embed"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

//go:embed manifests.yaml
var manifests []byte

// Configuration returns the ValidatingWebhookConfiguration. An error means that the
// generated file is not one.
func Configuration() (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := yaml.UnmarshalStrict(manifests, configuration); err != nil {
		return nil, fmt.Errorf("embedded ValidatingWebhookConfiguration: %w", err)
	}
	return configuration, nil
}
