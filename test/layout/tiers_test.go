// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// tiers returns the tiers of each package with tests, by its path. The script derives them from what the tests link.
func tiers(t *testing.T) map[string][]string {
	t.Helper()
	command := testenv.CommandContext(t.Context(), "hack/tiers.sh")
	command.Dir = root
	output, err := command.Output()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	all := map[string][]string{}
	for line := range strings.Lines(string(output)) {
		tier, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		path = strings.TrimPrefix(path, "./")
		all[path] = append(all[path], tier)
	}
	return all
}

// The tests of the decision half link nothing of Kubernetes, so that they compile in seconds and run with the race
// detector.
func TestTheDecisionHalfIsTestedWithoutKubernetes(t *testing.T) {
	g, found := NewWithT(t), 0
	for path, of := range tiers(t) {
		if strings.HasPrefix(path, "internal/limiter") || path == "test/testenv" {
			found++
			g.Expect(of).To(ConsistOf("unit", "race"), path)
		}
	}
	g.Expect(found).To(BeNumerically(">", 25))
}

// What needs no server but Redis is in the cheap tier.
func TestTiers(t *testing.T) {
	g, all := NewWithT(t), tiers(t)
	for path, want := range map[string]string{
		"cmd/kubectl-weir": "unit", "cmd/weir": "unit", "internal/compile": "unit", "internal/convert": "unit",
		"internal/standalone": "unit", "internal/controller": "kube", "test/manager": "kube", "test/plugin": "kube",
		"test/charts": "kube", "test/integration": "proxies", "test/migration/nginx": "proxies", "test/console": "console", "test/process": "process",
		"test/faults": "faults",
	} {
		g.Expect(all[path]).To(Equal([]string{want}), path)
	}
	for path, of := range all {
		g.Expect(slices.Contains(of, "race") && len(of) == 1).To(BeFalse(), path)
	}
}

// Every package with tests is in a tier, or `make e2e` or `make hostile` runs it.
func TestEveryTestHasATier(t *testing.T) {
	g, all := NewWithT(t), tiers(t)
	_, files := goFiles(t)
	for path := range files {
		folder := path[:strings.LastIndexByte(path, '/')+1]
		otherModule := strings.HasPrefix(folder, "client/") || strings.HasPrefix(folder, "hack/image/") || strings.HasPrefix(folder, "test/gitops/")
		if strings.HasSuffix(path, "_test.go") && !otherModule && folder != "test/e2e/" && folder != "test/hostile/" {
			g.Expect(all).To(HaveKey(strings.TrimSuffix(folder, "/")))
		}
	}
}
