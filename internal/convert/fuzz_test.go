// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/internal/validate"
)

// Any source is converted to valid policies or rejected.
func FuzzConvert(f *testing.F) {
	for folder := range conversions {
		files, _ := filepath.Glob(filepath.Join("testdata", folder, "*.in.yaml"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
				f.Add(folder, string(document))
			}
		}
	}
	f.Fuzz(func(t *testing.T, folder, text string) {
		do := conversions[folder]
		if do == nil {
			return
		}
		policies, _, err := do(t.Context(), []byte(text))
		if err != nil || len(policies) == 0 {
			return
		}
		g := NewWithT(t)
		var out bytes.Buffer
		g.Expect(convert.Write(&out, policies)).To(Succeed())
		result := validate.Run(t.Context(), []validate.Source{{Name: "out.yaml", Data: out.Bytes()}}, "default")
		g.Expect(result.Count(validate.SeverityError)).To(BeZero(), "%v", result.Findings)
	})
}
