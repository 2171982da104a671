// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package offline_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/offline"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// runConvert runs weir convert envoy-ratelimit.
func runConvert(t *testing.T, stdin string, args ...string) (policies, notes string, code int, err error) {
	t.Helper()
	code, policies, notes, err = execute(t, offline.NewConvert("weir"), stdin, append([]string{"envoy-ratelimit"}, args...)...)
	return policies, notes, code, err
}

// What is written to standard output can be applied; notes go elsewhere.
func TestConvertEnvoyRatelimit(t *testing.T) {
	g := NewWithT(t)
	const config = "domain: edge\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 3, replaces: [{name: x}]}}]"
	out, notes, _, err := runConvert(t, config, "-", "--namespace", "shop")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(notes).To(ContainSubstring("descriptors[0].rate_limit.replaces[0]: not carried over"))
	policies, err := testpolicy.Read(t.Context(), []byte(out))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(policies).To(HaveLen(1))
	g.Expect(policies[0].Namespace + "/" + policies[0].Name).To(Equal("shop/edge-user"))

	_, _, code, err := runConvert(t, "domain: edge\ndescriptors: [{rate_limit: {unit: day}}]", "-")
	g.Expect(code).To(Equal(1))
	g.Expect(err).To(MatchError(ContainSubstring("descriptors[0].key: must not be empty")))
	_, _, code, err = runConvert(t, "", "no-such-file")
	g.Expect(err).To(HaveOccurred())
	g.Expect(code).To(Equal(2))
}

// A limit that cannot be converted is named, and nothing is written unless --allow-partial is set.
func TestConvertReportsLosses(t *testing.T) {
	const minute = "\n- {key: kept, rate_limit: {unit: minute, requests_per_unit: 5}}"
	for name, tc := range map[string]struct{ config, loss string }{
		"nothing": {"", ""},
		"equal keys": {
			"\n- {key: a, value: x, descriptors: [{key: a, rate_limit: {unit: minute, requests_per_unit: 5}}]}",
			`descriptors[1].descriptors[0]: lost: the key "a" occurs twice`,
		},
	} {
		for _, partial := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				args := []string{"-"}
				if partial {
					args = append(args, "--allow-partial")
				}
				policies, notes, code, err := runConvert(t, "domain: d\ndescriptors:"+minute+tc.config, args...)
				g.Expect(notes).To(ContainSubstring(tc.loss))
				if tc.loss == "" || partial {
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(policies).To(ContainSubstring("key: kept"))
					return
				}
				g.Expect(err).To(MatchError(ContainSubstring("1 limits cannot be converted")))
				g.Expect(code).To(Equal(3))
				g.Expect(policies).To(BeEmpty())
			})
		}
	}
}

// Every conversion reads files and standard input, and loss exits with 3.
func TestConvertCommands(t *testing.T) {
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		code  int
		want  string // in the policies, the notes or the error
	}{
		"ingress-nginx":          {"", []string{"ingress-nginx", "../convert/testdata/ingressnginx/features.in.yaml", "--allow-partial", "--replicas", "2"}, 0, "burst: 62\n    name: rps\n    threshold: 20\n"},
		"ingress-nginx, lost":    {"", []string{"ingress-nginx", "../convert/testdata/ingressnginx/features.in.yaml"}, 3, "5 limits cannot be converted"},
		"ingress-nginx, no age":  {"", []string{"ingress-nginx", "../convert/testdata/ingressnginx/conflicts.in.yaml"}, 3, "conflicts.in.yaml:71: Ingress shop/one: lost: path /both of unknown.example"},
		"ingress-nginx, none":    {"{}", []string{"ingress-nginx", "-"}, 1, "-: found no limits to convert; the command reads Ingresses with annotations nginx.ingress.kubernetes.io/limit-*"},
		"another kind":           {"kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}", []string{"kuadrant", "-"}, 1, "-: found no limits to convert; the command reads RateLimitPolicies of the API group kuadrant.io"},
		"all lost":               {"- {namespace: a, max_value: 1, seconds: 60, conditions: [x]}", []string{"limitador", "-", "--allow-partial"}, 1, "-: none of the 1 limits can be converted"},
		"replicas":               {"{}", []string{"ingress-nginx", "-", "--replicas", "0"}, 2, "--replicas 0: must be 1..1000"},
		"Limitador":              {"- {namespace: edge, max_value: 1, seconds: 60}", []string{"limitador", "-", "-n", "shop"}, 0, "namespace: shop"},
		"Limitador, lost":        {"", []string{"limitador", "../convert/testdata/limitador/features.in.yaml"}, 3, "7 limits cannot be converted"},
		"Limitador, invalid":     {"a: b", []string{"limitador", "-"}, 1, "stdin:1: not a limits file of Limitador"},
		"Kuadrant":               {"", []string{"kuadrant", "../convert/testdata/kuadrant/overrides.in.yaml"}, 0, "name: external-a-toys"},
		"Kuadrant, lost":         {"", []string{"kuadrant", "../convert/testdata/kuadrant"}, 3, "limits cannot be converted"},
		"Kuadrant by matches":    {"", []string{"kuadrant", "../convert/testdata/kuadrant/overrides.in.yaml", "--by-matches"}, 0, "- hosts:\n    - toys.shop.example"},
		"Kuadrant, tokens":       {"apiVersion: kuadrant.io/v1alpha1\nkind: TokenRateLimitPolicy\nmetadata: {name: a}\nspec: {limits: {free: {}}}", []string{"kuadrant", "-"}, 3, "spec.limits.free: lost: tokens are counted after the response"},
		"Envoy Gateway":          {"", []string{"envoy-gateway", "../convert/testdata/envoygateway/features.in.yaml", "--service", "limiter"}, 0, "- name: limiter\n        namespace: weir-system\n        port: 8081"},
		"Envoy Gateway, pods":    {"", []string{"envoy-gateway", "../convert/testdata/envoygateway/features.in.yaml", "--replicas", "3"}, 0, "threshold: 60\n"},
		"Envoy Gateway, lost":    {"", []string{"envoy-gateway", "../convert/testdata/envoygateway"}, 3, "limits cannot be converted"},
		"Envoy Gateway, none":    {"{}", []string{"envoy-gateway", "-"}, 1, "-: found no limits to convert; the command reads BackendTrafficPolicies with rate limits"},
		"late charges":           {"- {namespace: edge, max_value: 1, seconds: 60}", []string{"limitador", "-", "--late-charges"}, 0, "lateCharges:\n    from: 2"},
		"no late charges":        {"domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]", []string{"envoy-ratelimit", "-"}, 0, "set --late-charges"},
		"no source":              {"", nil, 0, "Available Commands:"},
		"an unknown source":      {"", []string{"nginx"}, 2, `unknown command "nginx"`},
		"no file":                {"", []string{"kuadrant"}, 2, "requires at least 1 arg"},
		"a file that is missing": {"", []string{"kuadrant", "/no/file"}, 2, "/no/file: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			code, out, notes, err := execute(t, offline.NewConvert("weir"), tc.stdin, tc.args...)
			if err != nil {
				notes += err.Error()
			}
			g.Expect(out + notes).To(ContainSubstring(tc.want))
			g.Expect(code).To(Equal(tc.code))
		})
	}
}
