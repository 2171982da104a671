// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package spelling_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/spelling"
)

func TestClosest(t *testing.T) {
	g, fields := NewWithT(t), []string{"algorithm", "blockDuration", "threshold", "window"}
	for word, want := range map[string]string{
		"treshold": "threshold", "BLOCKDURATION": "blockDuration", "windows": "window", "blockFor": "", "": "", "w": "",
	} {
		g.Expect(spelling.Closest(word, fields)).To(Equal(want), word)
	}
}

// Read returns valid policies or an error for any input.
