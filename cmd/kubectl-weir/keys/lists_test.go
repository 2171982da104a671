// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// FuzzListsControlNoTerminal expects that nothing in an answer reaches the terminal as a control
// character, or breaks a row.
func FuzzListsControlNoTerminal(f *testing.F) {
	f.Add("\x1b[2J\x1b]0;title\x07", "\u202e\u009b31m")
	f.Add(strings.Repeat("\x1b", 64<<10), "a\tb\nc\r")
	f.Add("\xff\xfe", "…")
	f.Fuzz(func(t *testing.T, key, other string) {
		g := NewWithT(t)
		k := httptypes.ListedKey{Key: []string{key, other}, KeyHash: other}
		blocks := &BlockList{BlockList: httptypes.BlockList{Blocks: make([]httptypes.ListedBlock, 1)}}
		blocks.Blocks[0].ListedKey, blocks.Blocks[0].Policy, blocks.Blocks[0].Limit = k, key, other
		top := &TopList{TopList: httptypes.TopList{
			Policies: []httptypes.TopPolicy{{
				Policy: key, Mode: plan.Mode(other), Decisions: &httptypes.DecisionSums{}, Keys: []httptypes.TopKey{{ListedKey: k}},
			}},
			Reports: httptypes.Reports{Missing: []string{key}},
		}}
		var out bytes.Buffer
		g.Expect(blocks.write(&out)).To(Succeed())
		g.Expect(strings.Count(out.String(), "\n")).To(Equal(2))
		g.Expect(top.write(&out)).To(Succeed())
		for _, r := range out.String() {
			g.Expect(r == '\n' || unicode.IsPrint(r)).To(BeTrue(), "%q", r)
		}
		g.Expect(len([]rune(connect.ListedText(&k)))).To(BeNumerically("<=", connect.MaxShownKey))
	})
}
