// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import (
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
)

const maxBytes = 20

func TestTruncateKeepsWhatFits(t *testing.T) {
	t.Parallel()
	fits := strings.Repeat("x", maxBytes)
	NewWithT(t).Expect(Truncate(fits, maxBytes)).To(Equal(fits))
}

func TestTruncateCutsBetweenRunes(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	for pad := range 4 {
		short := Truncate(strings.Repeat("x", pad)+strings.Repeat("€", maxBytes), maxBytes)
		g.Expect(len(short)).To(BeNumerically("<=", maxBytes))
		g.Expect(utf8.ValidString(short)).To(BeTrue())
		g.Expect(short).To(HaveSuffix("€..."))
	}
}

func TestTruncateCutsAsCloseAsItCan(t *testing.T) {
	t.Parallel()
	NewWithT(t).Expect(Truncate(strings.Repeat("x", maxBytes+1), maxBytes)).To(Equal(strings.Repeat("x", maxBytes-3) + "..."))
}
