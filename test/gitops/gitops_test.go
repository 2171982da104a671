// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"slices"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// tool is one way to apply manifests and to find what differs afterwards.
type tool interface {
	apply(t *testing.T, list []*unstructured.Unstructured)
	// differences returns a description of each difference.
	differences(t *testing.T, list []*unstructured.Unstructured) []string
}

// After an apply, the writes of the leader and commands of operators, nothing differs from the manifests; an edit of what
// they set does.
func TestNothingDiffers(t *testing.T) {
	c := startCluster(t)
	chart, policies := manifests(t)
	all := slices.Concat(chart, policies)
	for _, way := range []struct {
		name string
		tool tool
	}{
		{"Flux", newFlux(c)},
		{"Argo CD, server-side apply", newArgoCD(t, c, true)},
		{"Argo CD, client-side apply", newArgoCD(t, c, false)},
	} {
		ok := t.Run(way.name, func(t *testing.T) {
			g := NewWithT(t)
			way.tool.apply(t, all)
			c.awaitEnforced(t, policies)
			g.Expect(way.tool.differences(t, all)).To(BeEmpty(), "after the first apply")
			versions := c.versions(t, all)
			way.tool.apply(t, all)
			g.Expect(c.versions(t, all)).To(Equal(versions), "the second apply writes nothing")

			c.weir(t, "shadow", "login", "--for", "1h")
			g.Expect(way.tool.differences(t, policies)).To(BeEmpty(), "after kubectl weir shadow")
			way.tool.apply(t, policies)
			g.Expect(c.shadowUntil(t)).NotTo(BeEmpty(), "an apply does not end kubectl weir shadow")
			c.weir(t, "enforce", "login")
			g.Expect(way.tool.differences(t, policies)).To(BeEmpty(), "after kubectl weir enforce")

			c.edit(t, "spellings", "Shadow", "spec", "mode")
			g.Expect(way.tool.differences(t, policies)).To(BeEmpty(), "an edit of a field that the manifest leaves out is none")
			c.edit(t, "spellings", "Deny", "spec", "onMissingKey")
			g.Expect(way.tool.differences(t, policies)).To(HaveLen(1), "an edit of another field is one")
			way.tool.apply(t, policies)
			g.Expect(way.tool.differences(t, policies)).To(BeEmpty(), "an apply reverts it")
			c.remove(t, all)
		})
		if !ok {
			return // what it has left behind would fail the others
		}
	}
}

// policy returns a policy of the Namespace shop as the API server has it.
func (c *cluster) policy(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	policy := &unstructured.Unstructured{}
	policy.SetAPIVersion("ratelimit.weir.dev/v1alpha1")
	policy.SetKind("RateLimitPolicy")
	policy.SetNamespace("shop")
	policy.SetName(name)
	return c.live(t, policy)
}

func (c *cluster) shadowUntil(t *testing.T) string {
	t.Helper()
	return c.policy(t, "login").GetAnnotations()["ratelimit.weir.dev/shadow-until"]
}

// edit changes a field of a policy as kubectl edit does.
func (c *cluster) edit(t *testing.T, name, value string, field ...string) {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(func() error { // the leader writes the status meanwhile
		live := c.policy(t, name)
		g.Expect(unstructured.SetNestedField(live.Object, value, field...)).To(Succeed())
		return c.client.Update(t.Context(), live)
	}).Should(Succeed())
}

// versions returns the resource versions of the policies.
func (c *cluster) versions(t *testing.T, list []*unstructured.Unstructured) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, o := range keep(list, isPolicy) {
		versions[o.GetName()] = c.live(t, o).GetResourceVersion()
	}
	return versions
}

// flux applies as the kustomize-controller does.
type flux struct{ manager *ssa.ResourceManager }

func newFlux(c *cluster) *flux {
	poller := polling.NewStatusPoller(c.client, c.client.RESTMapper(), polling.Options{})
	return &flux{manager: ssa.NewResourceManager(c.client, poller, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})}
}

func (f *flux) apply(t *testing.T, list []*unstructured.Unstructured) {
	t.Helper()
	g := NewWithT(t)
	list = copies(list)
	f.manager.SetOwnerLabels(list, "weir", "flux-system")
	g.Expect(normalize.UnstructuredList(list)).To(Succeed())
	options := ssa.DefaultApplyOptions()
	options.WaitInterval = 100 * time.Millisecond
	_, err := f.manager.ApplyAllStaged(t.Context(), list, options)
	g.Expect(err).NotTo(HaveOccurred())
	// With wait: true, the Kustomization is ready when the policies are.
	g.Expect(f.manager.Wait(keep(list, isPolicy), ssa.WaitOptions{Interval: 100 * time.Millisecond, Timeout: timeout})).To(Succeed())
}

func (f *flux) differences(t *testing.T, list []*unstructured.Unstructured) (found []string) {
	t.Helper()
	g := NewWithT(t)
	list = copies(list)
	f.manager.SetOwnerLabels(list, "weir", "flux-system")
	g.Expect(normalize.UnstructuredList(list)).To(Succeed())
	for _, o := range list {
		entry, live, merged, err := f.manager.Diff(t.Context(), o, ssa.DefaultDiffOptions())
		g.Expect(err).NotTo(HaveOccurred())
		if entry.Action != ssa.UnchangedAction {
			found = append(found, differenceOf(o, live, merged))
		}
	}
	return found
}

// argoCD applies as the application controller does.
type argoCD struct {
	cluster    *cluster
	operations kube.ResourceOperations
	serverSide bool
	options    []diff.Option
}

const argoManager = "argocd-controller"

func newArgoCD(t *testing.T, c *cluster, serverSide bool) *argoCD {
	t.Helper()
	g := NewWithT(t)
	kubectl := &kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}
	operations, cleanup, err := kubectl.ManageResources(c.Config)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(cleanup)
	applier, cleanup, err := kubectl.ManageServerSideDiffDryRuns(c.Config)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(cleanup)
	a := &argoCD{cluster: c, operations: operations, serverSide: serverSide}
	if serverSide {
		a.options = []diff.Option{
			diff.WithServerSideDiff(true), diff.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(applier)),
			diff.WithManager(argoManager), diff.WithIgnoreMutationWebhook(false),
		}
	}
	return a
}

func (a *argoCD) apply(t *testing.T, list []*unstructured.Unstructured) {
	t.Helper()
	g := NewWithT(t)
	for _, o := range list {
		g.Eventually(func() error { // a resource is served some time after its definition was applied
			_, err := a.operations.ApplyResource(t.Context(), o.DeepCopy(), cmdutil.DryRunNone, false, false, a.serverSide, argoManager)
			return err
		}).Should(Succeed(), o.GetKind()+" "+o.GetName())
	}
}

func (a *argoCD) differences(t *testing.T, list []*unstructured.Unstructured) (found []string) {
	t.Helper()
	for _, o := range list {
		live := a.cluster.live(t, o)
		result, err := diff.Diff(o.DeepCopy(), live.DeepCopy(), a.options...)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), o.GetKind()+" "+o.GetName())
		if result.Modified {
			found = append(found, o.GetKind()+" "+o.GetName()+": "+string(result.NormalizedLive)+" -> "+string(result.PredictedLive))
		}
	}
	return found
}

func copies(list []*unstructured.Unstructured) []*unstructured.Unstructured {
	copied := make([]*unstructured.Unstructured, len(list))
	for i, o := range list {
		copied[i] = o.DeepCopy()
	}
	return copied
}

// differenceOf describes a difference.
func differenceOf(o, live, merged *unstructured.Unstructured) string {
	text := o.GetKind() + " " + o.GetName()
	if live == nil || merged == nil {
		return text
	}
	was, _ := live.MarshalJSON()
	becomes, _ := merged.MarshalJSON()
	return text + ": " + string(was) + " -> " + string(becomes)
}
