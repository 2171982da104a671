// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/convert"
)

// A configuration that the service rejects is rejected with the field.
func TestEnvoyRatelimitErrors(t *testing.T) {
	for name, tc := range map[string]struct{ config, problem string }{
		"no domain":             {"descriptors: [{key: a}]", "domain: must not be empty"},
		"no key":                {"domain: d\ndescriptors: [{value: a}]", "descriptors[0].key: must not be empty"},
		"no key, nested":        {"domain: d\ndescriptors: [{key: a, descriptors: [{value: b}]}]", "descriptors[0].descriptors[0].key"},
		"twice":                 {"domain: d\ndescriptors: [{key: a}, {key: a}]", `descriptors[1]: key "a" with value "" is defined twice`},
		"unknown unit":          {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: fortnight}}]", `descriptors[0].rate_limit.unit: "fortnight" is not one of`},
		"unlimited with a unit": {"domain: d\ndescriptors: [{key: a, rate_limit: {unlimited: true, unit: day}}]", "descriptors[0].rate_limit.unit: must not be set"},
		"unknown field":         {"domain: d\ndescriptors: [{key: a, ratelimit: {}}]", `unknown field "descriptors[0].ratelimit"`},
		"negative":              {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: -1}}]", "descriptors[0].rate_limit.requests_per_unit: -1"},
		"no YAML":               {"\t", "not a configuration of envoyproxy/ratelimit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := convert.EnvoyRatelimit([]byte(tc.config), "shop")
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.problem)))
		})
	}
}
