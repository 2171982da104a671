// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv/commandpage"
)

var update = flag.Bool("update", false, "rewrite docs/reference/weir.md")

// docs/reference/weir.md lists exactly the commands and their flags.
func TestGoldenCommands(t *testing.T) {
	g := NewWithT(t)
	const path = "../../docs/reference/weir.md"
	page := commandpage.Of(newCommand(), commandpage.Options{
		Title: "Flags of weir", Intro: "Every command and flag of the program in the image. The chart sets the flags of its pods by [values](../install.md).",
	})
	if *update {
		g.Expect(os.WriteFile(path, []byte(page), 0o600)).To(Succeed())
	}
	written, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(written)).To(Equal(page), "run make golden")
}
