// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package commandpage

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
)

func TestPage(t *testing.T) {
	nothing := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tool"}
	root.PersistentFlags().StringP("namespace", "n", "shop", "`NAME` of the namespace")
	root.PersistentFlags().String("token", "", "omitted")
	parent := &cobra.Command{Use: "list", Short: "List things"}
	child := &cobra.Command{Use: "all PATH...", Short: "List all", Run: nothing}
	child.Flags().Int("most", 5, "how many of a|b at <host>")
	child.Flags().Bool("quiet", false, "print nothing")
	child.Flags().Bool("secret", false, "not for users")
	NewWithT(t).Expect(child.Flags().MarkHidden("secret")).To(Succeed())
	parent.AddCommand(child)
	root.AddCommand(parent, &cobra.Command{Use: "old", Short: "Old", Hidden: true, Run: nothing})

	NewWithT(t).Expect(Of(root, Options{Title: "Commands", Intro: "All.", Omit: []string{"token"}})).To(Equal(
		"# Commands\n\nAll. `make golden` writes this page from the program.\n\n" +
			"## Flags of every command\n\n| flag | default | |\n|---|---|---|\n| `-n, --namespace NAME` | `shop` | NAME of the namespace |\n\n" +
			"## tool list\n\nList things.\n\n```\ntool list\n```\n\n" +
			"## tool list all\n\nList all.\n\n```\ntool list all PATH... [flags]\n```\n\n" +
			"| flag | default | |\n|---|---|---|\n| `--most int` | `5` | how many of a\\|b at &lt;host> |\n| `--quiet` |  | print nothing |\n"))
}
