// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// runners maps each page to the test that runs its commands as printed, with other addresses and timeouts.
var runners = map[string]struct{ file, function string }{
	"docs/tutorials/laptop.md":           {"test/integration/tutorial_test.go", "TestLaptopTutorial"},
	"docs/tasks/backup.md":               {"test/e2e/install_page_test.go", "readPage"},
	"docs/tasks/exceptions.md":           {"test/plugin/exceptions_page_test.go", "TestTheTaskOfExceptions"},
	"docs/tasks/expiring-credentials.md": {"internal/limiter/redisclient/credentials_page_test.go", "TestProgramsOfThePage"},
	"docs/tasks/failed-logins.md":        {"test/integration/tasks_test.go", "TestFailedLoginsTask"},
	"docs/tasks/gateway-api.md":          {"test/e2e/gateway_task_test.go", "taskSpecs"},
	"docs/tasks/tenant-quota.md":         {"test/integration/tasks_test.go", "TestTenantQuotaTask"},
	"docs/tasks/tiers.md":                {"test/plugin/tiers_page_test.go", "TestPageOfTiers"},
	"docs/migration.md":                  {"test/migration/walks_test.go", "TestWalksOfThePage"},
	"docs/install.md":                    {"test/e2e/install_page_test.go", "readPage"},
	"docs/integrations/envoy-gateway.md": {"test/plugin/wire_test.go", "wirePrintsThePage"},
}

// A block of commands on the pages of installation and migration, or on a tutorial, task or integration page runs in a test, or a comment above it has the reason why
// it does not.
func TestBlocksOfCommandsRun(t *testing.T) {
	g := NewWithT(t)
	var pages []string
	for _, folder := range []string{"tutorials", "tasks", "integrations"} {
		found, err := filepath.Glob(filepath.Join(root, "docs", folder, "*.md"))
		g.Expect(err).NotTo(HaveOccurred())
		pages = append(pages, found...)
	}
	g.Expect(len(pages)).To(BeNumerically(">", 15))
	pages = append(pages, filepath.Join(root, "docs", "install.md"), filepath.Join(root, "docs", "migration.md"))
	run := map[string]bool{}
	for _, path := range pages {
		page, err := filepath.Rel(root, path)
		g.Expect(err).NotTo(HaveOccurred())
		lines := strings.Split(read(g, page), "\n")
		for i, line := range lines {
			if line != "```sh" && line != "```console" && line != "```bash" {
				continue
			}
			if reason, marked := strings.CutPrefix(lines[i-1], "<!-- not run: "); marked {
				g.Expect(len(reason)).To(BeNumerically(">", 20), "%s:%d: the reason", page, i)
				continue
			}
			run[page] = true
			g.Expect(runners).To(HaveKey(page), "line %d: add the test that runs it, or a comment above it: <!-- not run: REASON -->", i+1)
		}
	}
	for page, runner := range runners {
		g.Expect(run).To(HaveKey(page), "has no commands that a test runs")
		g.Expect(read(g, runner.file)).To(ContainSubstring("func "+runner.function+"("), page)
	}
}
