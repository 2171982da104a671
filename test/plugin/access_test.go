// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
)

// accountLabel is the label of the ServiceAccounts whose tokens the plugin takes.
const accountLabel = "ratelimit.weir.dev/access"

// accessObjects returns the objects of the text by kind, Namespace and name, without the labels that
// the chart gives to all its objects and the names of the Deployments.
func accessObjects(t *testing.T, text string) map[string]any {
	t.Helper()
	objects := map[string]any{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		NewWithT(t).Expect(yaml.Unmarshal([]byte(document), &o.Object)).To(Succeed())
		if o.Object == nil {
			continue
		}
		o.SetLabels(map[string]string{accountLabel: o.GetLabels()[accountLabel]})
		if rules, found, _ := unstructured.NestedSlice(o.Object, "rules"); found {
			for _, rule := range rules {
				if rule := rule.(map[string]any); rule["resources"].([]any)[0] == "deployments" {
					rule["resourceNames"] = len(rule["resourceNames"].([]any)) > 0
				}
			}
			o.Object["rules"] = rules
		}
		objects[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o.Object
	}
	return objects
}

// The command prints what the chart renders.
func TestAccessPrintsWhatTheChartRenders(t *testing.T) {
	g := NewWithT(t)
	chart, err := testenv.CommandContext(t.Context(), kube.Helm(t), "template", "edge", "../../charts/weir", "--namespace", "limits", "--kube-version", kube.Version(t),
		"--show-only", "templates/access.yaml", "--set", "redis.url=redis://redis:6379,access[0].name=support,access[0].role=operator,access[0].reveal=true,"+
			"access[0].namespaces={shop},access[0].subjects[0].kind=User,access[0].subjects[0].name=jane,access[0].subjects[1].kind=Group,access[0].subjects[1].name=sre").Output()
	g.Expect(err).NotTo(HaveOccurred())
	code, out, complaint := command(t, "access", "--role", "operator", "-n", "shop", "--name", "support", "--reveal",
		"--user", "jane", "--group", "sre", "--weir-namespace", "limits", "--fullname", "edge-weir")
	g.Expect(code).To(Equal(0), complaint)
	want := accessObjects(t, string(chart))
	g.Expect(want).To(HaveLen(6))
	g.Expect(accessObjects(t, out)).To(Equal(want))
}
