// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policyfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

const root = "../../"

// All pages that show shop/login show the sample.
func TestLoginIsTheSameEverywhere(t *testing.T) {
	g := NewWithT(t)
	sample, err := os.ReadFile(root + "config/samples/login-abuse.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	policies, err := testpolicy.Read(t.Context(), sample)
	g.Expect(err).NotTo(HaveOccurred())
	login := policies[0]
	shownIn := map[string]bool{}
	for _, page := range pages(t) {
		text, err := os.ReadFile(root + page)
		g.Expect(err).NotTo(HaveOccurred())
		for _, block := range testenv.CodeBlocks(string(text), "yaml") {
			if !strings.Contains(block, "kind: RateLimitPolicy") {
				continue
			}
			shown, _ := testpolicy.Read(t.Context(), []byte(block)) // some blocks are excerpts
			for _, p := range shown {
				if p.Namespace+"/"+p.Name == "shop/login" {
					g.Expect(p.Spec).To(Equal(login.Spec), page)
					shownIn[page] = true
				}
			}
		}
	}
	g.Expect(shownIn).To(And(HaveKey("README.md"), HaveKey("docs/spec/ratelimitpolicy.md")))
	plugin, err := os.ReadFile(root + "docs/kubectl.md")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(plugin)).To(ContainSubstring("(../config/samples/login-abuse.yaml)"), "its output is of the sample, by pages_test.go of kubectl-weir")
}

// pages returns the README and the pages of docs, relative to the root.
func pages(t *testing.T) []string {
	t.Helper()
	found := []string{"README.md"}
	NewWithT(t).Expect(filepath.WalkDir(root+"docs", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			found = append(found, strings.TrimPrefix(filepath.ToSlash(path), root))
		}
		return err
	})).To(Succeed())
	return found
}
