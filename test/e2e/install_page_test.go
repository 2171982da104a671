// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// printedPage is a page whose blocks of commands run as printed, in a folder as a checkout has it.
type printedPage struct {
	folder string
	text   string
	unused map[string]bool // blocks of commands that have not run
	edits  *strings.Replacer
}

// readPage reads a page. The edits are what a reader would change: images, and what needs another operator.
func readPage(folder, path string, edits *strings.Replacer) *printedPage {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, path))
	Expect(err).NotTo(HaveOccurred())
	p := &printedPage{folder: folder, text: string(text), unused: map[string]bool{}, edits: edits}
	for _, block := range testenv.CodeBlocks(p.text, "sh") {
		p.unused[block] = true
	}
	return p
}

// run runs the block of commands that has the text.
func (p *printedPage) run(ctx context.Context, text string) string {
	GinkgoHelper()
	var found []string
	for block := range p.unused {
		if strings.Contains(block, text) {
			found = append(found, block)
		}
	}
	Expect(found).To(HaveLen(1), text)
	delete(p.unused, found[0])
	out, err := tryTool(ctx, "cd '"+p.folder+"'\n"+p.edits.Replace(found[0]), "bash", "-euo", "pipefail")
	Expect(err).NotTo(HaveOccurred())
	return out
}

// write writes the printed file that has the text.
func (p *printedPage) write(name, text string) {
	GinkgoHelper()
	for _, block := range testenv.CodeBlocks(p.text, "yaml") {
		if strings.Contains(block, text) {
			Expect(os.WriteFile(filepath.Join(p.folder, name), []byte(p.edits.Replace(block)), 0o600)).To(Succeed())
			return
		}
	}
	Fail("the page has no file with " + text)
}

// docs/install.md and docs/tasks/backup.md as printed, in the order of a user who tries Weir, installs it with a Redis, moves and
// removes it.
var _ = Describe("weir installed by the page of the installation", Ordered, func() {
	const redisURL = "redis://redis.redis.svc.cluster.local:6379"
	var page, backup *printedPage
	var redisPort string
	repository, tag, _ := strings.Cut(weirImage, ":")

	BeforeAll(func(ctx SpecContext) {
		needsClusterWithoutWeir(ctx)
		folder := GinkgoT().TempDir()
		checkout, err := filepath.Abs(root)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Symlink(filepath.Join(checkout, "charts"), filepath.Join(folder, "charts"))).To(Succeed())
		Expect(os.CopyFS(filepath.Join(folder, "config"), os.DirFS(filepath.Join(root, "config")))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			for _, namespace := range []string{"weir-system", "limits"} {
				if CurrentSpecReport().Failed() {
					show(ctx, namespace)
				}
				_, _ = tryTool(ctx, "", "helm", "uninstall", release, "--namespace", namespace, "--ignore-not-found", "--wait", "--timeout", "240s")
			}
			_, _ = tryKubectl(ctx, "delete", "--ignore-not-found", "-k", filepath.Join(folder, "config", "default"), "--timeout=120s")
			kubectlDefinitions(ctx, "delete", "--ignore-not-found", "--timeout=120s")
			kubectl(ctx, "delete", "namespace", "weir-system", "limits", "shop", "--ignore-not-found", "--timeout=120s")
		}, NodeTimeout(5*time.Minute))
		createNamespace(ctx, "redis")
		apply(ctx, "redis", "redis.yaml", map[string]string{"image": redisImage})
		rolledOut(ctx, "redis", "redis")
		_, redisPort, _ = strings.Cut(forward("redis", "redis", 6379), ":")
		edits := strings.NewReplacer(
			" charts/weir ", " charts/weir --set image.repository="+repository+",image.tag="+tag+",storeTimeout=2s ",
			"redis:7.4", redisImage, "ghcr.io/weir-dev/weir:1.2.3", weirImage,
			"      # or: kubectl delete -k config/default", "", "redis://redis.example:6379", redisURL,
			"kubectl create namespace weir-system\n", "", // it stays when a release is uninstalled
			"redis-cli", "redis-cli -p "+redisPort,
			// The values that need the operator of Prometheus, and the digest of a release.
			"serviceMonitor: {enabled: true}", "", "prometheusRule: {enabled: true}", "", "image: {digest", "#",
		)
		page, backup = readPage(folder, "docs/install.md", edits), readPage(folder, "docs/tasks/backup.md", edits)
		for name, content := range map[string]string{"password.txt": "secret", "ca.crt": "-"} {
			Expect(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600)).To(Succeed())
		}
	}, NodeTimeout(5*time.Minute))

	It("is tried with the bundled Redis and the samples", func(ctx SpecContext) {
		Expect(page.run(ctx, "redis.bundled.enabled=true")).To(MatchRegexp(`Phase: +Succeeded`))
		Expect(page.run(ctx, "kubectl apply -f config/samples/namespace")).To(ContainSubstring("denied"))
	}, NodeTimeout(5*time.Minute))

	It("is backed up and restored", func(ctx SpecContext) {
		kubectl(ctx, "apply", "--filename", root+"/config/samples/keygroups")
		exception := "{apiVersion: ratelimit.weir.dev/v1alpha1, kind: RateLimitException, metadata: {name: launch, namespace: shop}, " +
			"spec: {policy: api-quota, key: [acme], limits: [{name: hourly, threshold: 5000}], until: " + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + "}}"
		_, err := tryTool(ctx, exception, "kubectl", "apply", "--filename", "-")
		Expect(err).NotTo(HaveOccurred())
		const kinds = "ratelimitpolicies,ratelimitkeygroups,ratelimitexceptions"
		specs := func() string {
			return kubectl(ctx, "get", kinds, "-A", "--sort-by=.metadata.name", "--output=jsonpath={range .items[*]}{.kind} {.metadata.name} {.spec}{\"\\n\"}{end}")
		}
		before := specs()
		Expect(strings.Count(before, "\n")).To(BeNumerically(">", 15))
		backup.run(ctx, "kubectl get ratelimitpolicies")
		kubectl(ctx, "delete", kinds, "--all", "-A", "--timeout=120s")
		Expect(specs()).To(BeEmpty())
		backup.run(ctx, "kubectl wait")
		Expect(specs()).To(Equal(before))
		Expect(backup.unused).To(BeEmpty())
	}, NodeTimeout(5*time.Minute))

	It("is upgraded, rolled back and uninstalled", func(ctx SpecContext) {
		page.run(ctx, "helm rollback")
		page.run(ctx, "helm uninstall weir --namespace weir-system --wait      #")
		Expect(strings.Fields(kubectlDefinitions(ctx, "get", "--output=name"))).To(HaveLen(len(definitions)))
	}, NodeTimeout(5*time.Minute))

	It("is installed with a Redis and moved to another Namespace, with all policies and counters", func(ctx SpecContext) {
		page.run(ctx, "secret generic weir-redis --from-literal=url=")
		page.run(ctx, "secret generic weir-redis-login")
		page.write("values.yaml", "split: {enabled: true}")
		page.run(ctx, "helm install weir charts/weir --namespace weir-system --values values.yaml --wait")
		kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=120s", "ratelimitpolicies", "--all", "--namespace", "shop")

		kubectl(ctx, "create", "namespace", "limits")
		kubectl(ctx, "create", "secret", "generic", "weir-redis", "--namespace", "limits", "--from-literal=url="+redisURL)
		page.run(ctx, "release-namespace=limits")
		kubectl(ctx, "wait", "--for=condition=Ready", "--timeout=120s", "ratelimitpolicies", "--all", "--namespace", "shop")
		tool(ctx, "helm", "uninstall", release, "--namespace", "limits", "--wait", "--timeout", "240s")
	}, NodeTimeout(10*time.Minute))

	It("leaves nothing behind", func(ctx SpecContext) {
		page.run(ctx, "kubectl delete crd")
		Expect(kubectlDefinitions(ctx, "get", "--ignore-not-found", "--output=name")).To(BeEmpty())
		Expect(tool(ctx, "redis-cli", "-p", redisPort, "dbsize")).NotTo(Equal("0\n"))
		Eventually(func() string { // a pod that ends still writes its heartbeat
			return kubectl(ctx, "get", "pods", "--all-namespaces", "--selector=app.kubernetes.io/name=weir", "--output=name")
		}).WithContext(ctx).Should(BeEmpty())
		page.run(ctx, "redis-cli --scan")
		Expect(tool(ctx, "redis-cli", "-p", redisPort, "dbsize")).To(Equal("0\n"))
	}, NodeTimeout(5*time.Minute))

	It("is installed by kustomize", func(ctx SpecContext) {
		file := filepath.Join(page.folder, "config", "default", "kustomization.yaml")
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		edited := strings.Replace(string(text), "  newTag: 0.1.0", "  newName: "+repository+"\n  newTag: "+tag, 1)
		Expect(os.WriteFile(file, []byte(edited), 0o600)).To(Succeed())
		page.run(ctx, "kubectl apply --server-side -k config/default")
		rolledOut(ctx, "weir-system", "weir-manager")
		Expect(page.unused).To(BeEmpty(), "every block of commands of the page has run")
	}, NodeTimeout(5*time.Minute))
})
