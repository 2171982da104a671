// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd embeds the generated CustomResourceDefinitions. Code that installs them or
// validates with them does not depend on its working directory.
package crd

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed bases/*.yaml
var bases embed.FS

// RateLimitPolicies returns the CustomResourceDefinition of RateLimitPolicy. An
// error means that the generated file is not one.
func RateLimitPolicies() (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := bases.ReadFile("bases/ratelimit.weir.dev_ratelimitpolicies.yaml")
	if err != nil {
		return nil, err
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, definition); err != nil {
		return nil, fmt.Errorf("embedded CustomResourceDefinition of RateLimitPolicy: %w", err)
	}
	return definition, nil
}
