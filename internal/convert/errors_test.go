// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"testing"

	. "github.com/onsi/gomega"
)

// A file that the source would reject is an error that names the field.
func TestErrors(t *testing.T) {
	for name, tc := range map[string]struct{ source, text, problem string }{
		"ingress-nginx: no YAML":     {"ingressnginx", "a: [", "document 1: yaml"},
		"ingress-nginx: a list":      {"ingressnginx", "# x\n---\n- a", "document 2: not a manifest"},
		"ingress-nginx: no Ingress":  {"ingressnginx", "kind: Ingress\nmetadata: {name: a}\nspec: {rules: 5}", "Ingress default/a: json"},
		"Limitador: no list":         {"limitador", "a: b", "not a limits file of Limitador"},
		"Limitador: an unknown name": {"limitador", "- {namespace: a, max_value: 1, seconds: 1, varables: []}", `unknown field "[0].varables"`},
		"Limitador: no domain":       {"limitador", "- {max_value: 1, seconds: 1}", "[0].namespace: must not be empty"},
		"Limitador: negative":        {"limitador", "- {namespace: a, max_value: -1, seconds: 1}", "[0].max_value: -1 is negative"},
		"Limitador: no window":       {"limitador", "- {namespace: a, max_value: 1}", "[0].seconds: 0 is not positive"},
		"Kuadrant: no YAML":          {"kuadrant", "\t", "document 1"},
		"Kuadrant: a broken policy":  {"kuadrant", "apiVersion: kuadrant.io/v1\nkind: RateLimitPolicy\nmetadata: {name: a}\nspec: []", "RateLimitPolicy default/a: json"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := conversions[tc.source](t.Context(), []byte(tc.text))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(tc.problem)))
		})
	}
}
