// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
)

func TestHeadingsAreBoldOnATerminal(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	table := NewTable(&out)
	g.Expect(table.bold).To(BeFalse())
	table.bold = true
	table.Heading("POLICY", "ALLOWED 1H")
	table.Row("(total)", "7")
	g.Expect(table.Flush()).To(Succeed())
	g.Expect(out.String()).To(MatchRegexp(`^\x1b\[1mPOLICY .*ALLOWED 1H\x1b\[0m\n\(total\) `))
}
