// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// The page docs/tasks/tiers.md works as printed, on a cluster.
func TestPageOfTiers(t *testing.T) {
	g := NewWithT(t)
	_, url := startManager(t)
	text, err := os.ReadFile("../../docs/tasks/tiers.md")
	g.Expect(err).NotTo(HaveOccurred())
	sample, err := os.ReadFile("../../config/samples/tiers.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(sample)).To(ContainSubstring(testenv.CodeBlocks(string(text), "yaml")[0]), "the page shows a part of the sample")
	folder := t.TempDir()
	g.Expect(os.WriteFile(filepath.Join(folder, "gold.csv"), []byte(testenv.CodeBlocks(string(text), "csv")[0]), 0o600)).To(Succeed())

	ran := 0
	for _, b := range testenv.ConsoleBlocks(t, "tasks/tiers.md") {
		for _, s := range b.Steps {
			args := s.Words()
			switch args[1] {
			case "weir":
				code, out, complaint := command(t, inFolder(folder, args[2:])...)
				g.Expect(code).To(Equal(0), complaint)
				g.Expect(testenv.IsSameOutput(out, s.Output)).To(BeTrue(), "%s printed\n%s", s.Command, out)
			default:
				g.Expect(kubectl(t, args[1:]...)).To(Equal(s.Output), s.Command)
				g.Eventually(readyGroups(t), timeout).Should(BeTrue())
			}
			ran++
		}
	}
	g.Expect(ran).To(Equal(5))

	for key, want := range map[string][2]any{
		"acme": {int64(500), "gold"}, "umbrella": {int64(50), "silver"}, "stranger": {int64(5), ""},
	} {
		response, err := http.Post(url+"/v1/check", "application/json", strings.NewReader(`{"policies":["shop/tiers"],"key":"`+key+`"}`))
		g.Expect(err).NotTo(HaveOccurred())
		var answer struct {
			Limits []struct {
				Threshold int64
				Group     string
			}
		}
		g.Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(answer.Limits).To(HaveLen(1))
		g.Expect([2]any{answer.Limits[0].Threshold, answer.Limits[0].Group}).To(Equal(want), key)
	}
}

// readyGroups reports whether all key groups are ready.
func readyGroups(t *testing.T) func() bool {
	t.Helper()
	return func() bool {
		code, out, _ := command(t, "groups", "list", "-n", "shop", "-o", "json")
		var list struct {
			Groups []struct{ Objects, ReadyObjects int }
		}
		if code != 0 || json.Unmarshal([]byte(out), &list) != nil {
			return false
		}
		for _, group := range list.Groups {
			if group.Objects != group.ReadyObjects {
				return false
			}
		}
		return true
	}
}

// inFolder returns the arguments with the path of gold.csv.
func inFolder(folder string, args []string) []string {
	for i := range args {
		if args[i] == "gold.csv" {
			args[i] = filepath.Join(folder, args[i])
		}
	}
	return args
}
