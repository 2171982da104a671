// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
)

// health runs the health script of the page on an object, like Argo CD.
func health(g *WithT, script, object string) (status, message string) {
	var fields map[string]any
	g.Expect(yaml.Unmarshal([]byte(object), &fields)).To(Succeed())
	state := lua.NewState()
	defer state.Close()
	state.SetGlobal("obj", luaValue(state, fields))
	g.Expect(state.DoString(script)).To(Succeed())
	answer, ok := state.Get(-1).(*lua.LTable)
	g.Expect(ok).To(BeTrue())
	return answer.RawGetString("status").String(), answer.RawGetString("message").String()
}

func luaValue(state *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for name, member := range v {
			table.RawSetString(name, luaValue(state, member))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, element := range v {
			table.Append(luaValue(state, element))
		}
		return table
	case string:
		return lua.LString(v)
	case float64:
		return lua.LNumber(v)
	default:
		return lua.LNil
	}
}

func TestArgoCDHealth(t *testing.T) {
	text, err := os.ReadFile("../../docs/gitops.md")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	block := regexp.MustCompile("(?s)```yaml\n(apiVersion: v1\nkind: ConfigMap.*?)\n```").FindSubmatch(text)
	NewWithT(t).Expect(block).NotTo(BeNil())
	config := corev1.ConfigMap{}
	NewWithT(t).Expect(yaml.UnmarshalStrict(block[1], &config)).To(Succeed())
	customizations := map[string]map[string]string{}
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(config.Data["resource.customizations"]), &customizations)).To(Succeed())
	script := customizations[v1alpha1.GroupVersion.Group+"/*"]["health.lua"] // of every kind
	const ready = `conditions: [{type: Accepted, status: "True"}, {type: Ready, status: "True", message: enforced}]}`
	for name, tc := range map[string]struct{ object, status, message string }{
		"new":        {`{metadata: {generation: 1}}`, "Progressing", "Waiting"},
		"not seen":   {`{metadata: {generation: 1}, status: {observedGeneration: -1}}`, "Progressing", "Waiting"},
		"edited":     {`{metadata: {generation: 2}, status: {observedGeneration: 1, ` + ready + `}`, "Progressing", "Waiting"},
		"seen":       {`{metadata: {generation: 2}, status: {observedGeneration: 2}}`, "Progressing", "Waiting"},
		"enforced":   {`{metadata: {generation: 2}, status: {observedGeneration: 2, ` + ready + `}`, "Healthy", "enforced"},
		"on its way": {`{metadata: {generation: 2}, status: {observedGeneration: 2, conditions: [{type: Ready, status: "False", message: 1 of 2}]}}`, "Progressing", "1 of 2"},
		"a group that is not accepted": {
			`{kind: RateLimitKeyGroup, metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: Stalled, status: "True", message: twice}]}}`, "Degraded", "twice",
		},
		"an exception that has ended": {
			`{kind: RateLimitException, metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [
				{type: Active, status: "False", reason: Expired}, {type: Ready, status: "True", message: The exception has ended.}]}}`, "Healthy", "ended",
		},
		"not accepted": {`{metadata: {generation: 2}, status: {observedGeneration: 2, conditions: [{type: Stalled, status: "True", message: bad}, {type: Ready, status: "False"}]}}`, "Degraded", "bad"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			status, message := health(g, script, tc.object)
			g.Expect(status).To(Equal(tc.status))
			g.Expect(message).To(ContainSubstring(tc.message))
		})
	}
}

// Applying the same files again changes nothing, with server-side and client-side apply,
// and kubectl diff reports nothing: the schema's defaults have no field owner.
func TestApplyingAgainChangesNothing(t *testing.T) {
	g := NewWithT(t)
	api := kube.StartAPIServer(t)
	g.Expect(api.Client().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})).To(Succeed())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, api.Env.KubeConfig, 0o600)).To(Succeed())
	kubectl := func(arguments ...string) {
		cmd := testenv.CommandContext(t.Context(), kube.Kubectl(t), append(arguments, "-f", "../../config/samples")...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		output, err := cmd.CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), strings.Join(arguments, " ")+":\n"+string(output))
	}
	versions := func() map[string]string {
		list := &v1alpha1.RateLimitPolicyList{}
		g.Expect(api.Client().List(t.Context(), list, client.InNamespace("shop"))).To(Succeed())
		all := map[string]string{}
		for i := range list.Items {
			all[list.Items[i].Name] = list.Items[i].ResourceVersion
		}
		return all
	}
	kubectl("apply", "--server-side")
	list := &v1alpha1.RateLimitPolicyList{}
	g.Expect(api.Client().List(t.Context(), list)).To(Succeed())
	for i := range list.Items { // like the controller; before it, no default of the status is stored
		list.Items[i].Status.ObservedGeneration = 1
		g.Expect(api.Client().Status().Update(t.Context(), &list.Items[i], client.FieldOwner("weir"))).To(Succeed())
	}
	for _, apply := range [][]string{{"apply", "--server-side"}, {"apply", "--server-side", "--field-manager", "flux", "--force-conflicts"}, {"apply"}} {
		kubectl(apply...)
		before := versions()
		g.Expect(before).To(And(Not(BeEmpty()), HaveLen(len(list.Items))))
		kubectl(apply...)
		g.Expect(versions()).To(Equal(before), strings.Join(apply, " "))
		kubectl("diff")
	}
}
