// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd carries the generated CustomResourceDefinitions, so that tests and
// checks read them without knowing where they run.
package crd

import "embed"

//go:embed bases/*.yaml
var bases embed.FS

// RateLimitPolicies returns the CustomResourceDefinition of RateLimitPolicy as
// YAML.
func RateLimitPolicies() []byte {
	data, err := bases.ReadFile("bases/ratelimit.weir.dev_ratelimitpolicies.yaml")
	if err != nil {
		// The file is part of the binary: it can only be missing if it was renamed
		// without this line.
		panic(err)
	}
	return data
}
