// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/weir-dev/weir/test/testenv/commandpage"
)

var update = flag.Bool("update", false, "rewrite docs/reference/kubectl-weir.md")

// docs/reference/kubectl-weir.md lists exactly the commands and their flags, without the flags of kubectl.
func TestGoldenCommands(t *testing.T) {
	g := NewWithT(t)
	const path = "../../docs/reference/kubectl-weir.md"
	var kubectl []string
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	genericclioptions.NewConfigFlags(true).AddFlags(shared)
	shared.VisitAll(func(f *pflag.Flag) { kubectl = append(kubectl, f.Name) })
	page := commandpage.Of(newRootCommand(genericiooptions.IOStreams{}), commandpage.Options{
		Title: "Flags of kubectl weir", Omit: kubectl,
		Intro: "Every command of the [plugin](../kubectl.md) and its flags. The flags of kubectl, such as `--namespace`, apply to each.",
	})
	overview, err := os.ReadFile("../../docs/kubectl.md")
	g.Expect(err).NotTo(HaveOccurred())
	for _, command := range newRootCommand(genericiooptions.IOStreams{}).Commands() {
		g.Expect(string(overview)).To(ContainSubstring("kubectl weir "+command.Name()), "in the table of docs/kubectl.md")
	}
	if *update {
		g.Expect(os.WriteFile(path, []byte(page), 0o600)).To(Succeed())
	}
	written, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(written)).To(Equal(page), "run make golden")
}
