// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd embeds the generated CustomResourceDefinitions. Code that installs them or
// validates with them does not depend on its working directory.
package crd

import (
	"embed"
	"fmt"
	"path"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed bases/*.yaml
var bases embed.FS

// Definitions returns all CustomResourceDefinitions, in the order of their names. An error means that a
// generated file is not one.
func Definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := bases.ReadDir("bases")
	if err != nil {
		return nil, err
	}
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(files))
	for _, file := range files {
		definition, err := read(file.Name())
		if err != nil {
			return nil, err
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}

// RateLimitPolicies returns the CustomResourceDefinition of RateLimitPolicy. An
// error means that the generated file is not one.
func RateLimitPolicies() (*apiextensionsv1.CustomResourceDefinition, error) {
	return read("ratelimit.weir.dev_ratelimitpolicies.yaml")
}

func read(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := bases.ReadFile(path.Join("bases", file))
	if err != nil {
		return nil, err
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, definition); err != nil {
		return nil, fmt.Errorf("embedded CustomResourceDefinition %s: %w", file, err)
	}
	return definition, nil
}
