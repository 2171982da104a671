// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/convert"
)

// What a policy cannot do as nginx, and what nginx ignores, is named with the line and the annotation.
func TestNotesOfIngresses(t *testing.T) {
	// ingress writes an Ingress in six lines. Annotations are in flow style, paths of a host as "/ /a".
	ingress := func(name, annotations, host, paths string) string {
		var list []string
		for path := range strings.FieldsSeq(paths) {
			list = append(list, fmt.Sprintf("{path: %q, pathType: ImplementationSpecific, backend: {service: {name: %s, port: {number: 80}}}}", path, name))
		}
		return fmt.Sprintf("- apiVersion: networking.k8s.io/v1\n  kind: Ingress\n  metadata:\n    name: %s\n    annotations: {%s}\n  spec: {rules: [{host: %s, http: {paths: [%s]}}]}\n",
			name, annotations, host, strings.Join(list, ", "))
	}
	const n, limit = "nginx.ingress.kubernetes.io/", "nginx.ingress.kubernetes.io/limit-rps: '5'"
	for name, tc := range map[string]struct {
		ingresses []string
		note      string
		isLoss    bool
	}{
		"one path of two": {
			[]string{ingress("a", "", "h", "/ /x"), ingress("b", limit, "h", "/x")},
			"in.yaml:9: Ingress default/b: lost: path /x of h, which several Ingresses have: the oldest decides, and the files have no creationTimestamp (also Ingress default/a)", true,
		},
		"paths that nobody serves": {
			[]string{ingress("a", "", "h", "/x"), ingress("b", limit, "h", "/y")},
			"in.yaml:9: Ingress default/b: paths of h that no Ingress serves are not limited", false,
		},
		"two default backends": {
			[]string{
				strings.Replace(ingress("a", limit, "h", "/x"), "{rules", "{defaultBackend: {service: {name: a, port: {number: 80}}}, rules", 1),
				ingress("b", limit, "h", "/y"),
			},
			"Ingress default/b: lost: path / of h, which several Ingresses have", true,
		},
		"regular expressions by age": {
			[]string{ingress("a", limit, "h", "/"), ingress("b", n+"rewrite-target: /x", "h", "/")},
			"Ingress default/a: lost: path / of h, whose paths are regular expressions or not by the age of its Ingresses", true,
		},
		"aliases by age": {
			[]string{ingress("a", limit+", "+n+"server-alias: xx", "h", "/"), ingress("b", n+"server-alias: yy", "h", "/b")},
			"server-alias: lost: h has other aliases by Ingress default/", true,
		},
		"an alias with an expression": {
			[]string{ingress("a", limit+", "+n+"server-alias: \"x.example, ~^x[0-9]$\"", "h", "/")},
			"in.yaml:3: Ingress default/a: server-alias: lost: hosts cannot be ~^x[0-9]$", true,
		},
		"an expression that RE2 lacks": {
			[]string{ingress("a", limit+", "+n+"use-regex: 'true'", "h", "/a(?!b)"), ingress("b", n+"use-regex: 'true'", "h", "/")},
			"lost: path /a(?!b) of h: the expression /a(?!b) is not supported by RE2", true,
		},
		"another Ingress with such an expression": {
			[]string{ingress("a", n+"use-regex: 'true'", "h", "/a(?!b)"), ingress("b", limit, "h", "/a")},
			"lost: path /a of h: the expression /a(?!b) is not supported by RE2", true,
		},
		"an expression with escaped characters": {
			[]string{ingress("a", limit+", "+n+"use-regex: 'true'", "h", "/a%20b"), ingress("b", "", "h", "/")},
			"the expression /a%20b has characters that policies compare escaped", true,
		},
		"a canary": {
			[]string{ingress("a", limit+", "+n+"canary: 'true'", "h", "/"), ingress("b", limit, "h", "/")},
			"in.yaml:3: Ingress default/a: the limits of a canary have no effect", false,
		},
		"a canary with the Service of another Ingress": {
			[]string{ingress("a", limit+", "+n+"canary: 'true'", "h", "/"), strings.Replace(ingress("b", limit, "h", "/"), "service: {name: b", "service: {name: a", 1)},
			"in.yaml:3: Ingress default/a: lost: a canary with the Service and port of Ingress default/b", true,
		},
		"twice": {
			[]string{ingress("a", limit, "h", "/"), ingress("a", limit, "h", "/")},
			"Ingress default/a: lost: the files have this Ingress twice", true,
		},
		"a snippet": {
			[]string{ingress("a", n+"configuration-snippet: limit_req zone=z;", "h", "/"), ingress("b", limit, "i", "/")},
			"in.yaml:3: Ingress default/a: configuration-snippet: lost: directives of nginx are not converted", true,
		},
		"no burst": {
			[]string{ingress("a", limit+", "+n+"limit-burst-multiplier: '0'", "h", "/")},
			"Ingress default/a: limit-burst-multiplier: lost: nginx rejects a burst below 1", true,
		},
		"a large number": {
			[]string{ingress("a", n+"limit-rps: '9223372036854775807'", "h", "/")},
			"Ingress default/a: limit-rps: lost: a rate of 9223372036854775807 with a multiplier of 5 for 1 pods exceeds", true,
		},
		"an invalid number": {
			[]string{ingress("a", n+"limit-rpm: 5r/m", "h", "/")},
			`Ingress default/a: limit-rpm: "5r/m" is not a number: the controller ignores the whole Ingress`, false,
		},
		"an invalid network": {
			[]string{ingress("a", limit+", "+n+"limit-allowlist: '192.0.2.1,'", "h", "/")},
			`Ingress default/a: limit-allowlist: lost: "" is not a network; the controller ignores the whole Ingress`, true,
		},
		"an invalid target": {
			[]string{ingress("a", limit+", "+n+"rewrite-target: '/x?y=1'", "h", "/")},
			`Ingress default/a: rewrite-target: "/x?y=1" has characters that the controller does not accept`, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			text := "kind: List\nitems:\n" + strings.Join(tc.ingresses, "")
			_, notes, err := convert.IngressNginx(t.Context(), []convert.File{{Name: "in.yaml", Data: []byte(text)}}, convert.IngressNginxOptions{Namespace: "default", Replicas: 1})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(notes).To(ContainElement(And(WithTransform(convert.Note.String, ContainSubstring(tc.note)), HaveField("Loss", tc.isLoss))))
		})
	}
}
