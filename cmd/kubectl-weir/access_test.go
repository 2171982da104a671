// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// objectNames returns the kind, Namespace and name of each object of the text.
func objectNames(t *testing.T, text string) (names []string) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		NewWithT(t).Expect(yaml.Unmarshal([]byte(document), &o.Object)).To(Succeed())
		if o.Object != nil {
			names = append(names, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
		}
	}
	return names
}

// Without subjects there is no role for the account's tokens.
func TestAccessWithoutSubjects(t *testing.T) {
	g := NewWithT(t)
	code, out, complaint := command(t, "access", "--role", "inspect", "-n", "shop")
	g.Expect(code).To(Equal(0), complaint)
	g.Expect(objectNames(t, out)).To(ConsistOf("ServiceAccount weir-system/on-call", "RoleBinding shop/weir-on-call-inspect"))

	for want, args := range map[string][]string{
		`--role "admin": must be inspect or operator`:             {"--role", "admin"},
		"--reveal: needs --role operator":                         {"--role", "inspect", "--reveal"},
		`--name "On Call": a lowercase RFC 1123 label`:            {"--role", "inspect", "--name", "On Call"},
		`--name "weir": is the ServiceAccount of the pods`:        {"--role", "inspect", "--name", "weir"},
		"--user, --group: must not be empty":                      {"--role", "inspect", "--user", ""},
		`--weir-namespace "a/b": a lowercase RFC 1123 label must`: {"--role", "inspect", "--weir-namespace", "a/b"},
	} {
		code, _, complaint := command(t, append([]string{"access", "-n", "shop"}, args...)...)
		g.Expect(code).To(Equal(2), want)
		g.Expect(complaint).To(ContainSubstring(want))
	}
}
