// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/testenv"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Each testdata/<case>.in.yaml compiles to <case>.out.json, or fails with the
// lines of <case>.out.txt. Inputs pass the schema first, as they do in life.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	g := gomega.NewWithT(t)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	samples, err := filepath.Glob("../../config/samples/*.yaml")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(len(inputs) > 0 && len(samples) > 0).To(gomega.BeTrue())
	for _, input := range append(inputs, samples...) {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(input), ".yaml"), ".in")
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			data, err := os.ReadFile(input)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			policies, err := policyfile.Read(t.Context(), data)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(policies).To(gomega.HaveLen(1))
			before := policies[0].DeepCopy()

			compiled, errs := compile.Compile(policies[0], compile.Everything())
			g.Expect(policies[0]).To(gomega.Equal(before), "compile changes nothing")
			if errs != nil {
				var lines strings.Builder
				for _, e := range errs {
					lines.WriteString(e.Error() + "\n")
				}
				golden(t, "testdata/"+name+".out.txt", []byte(lines.String()))
				return
			}
			encoded, err := plan.Encode(compiled)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			var indented bytes.Buffer
			g.Expect(json.Indent(&indented, encoded, "", "  ")).To(gomega.Succeed())
			golden(t, "testdata/"+name+".out.json", append(indented.Bytes(), '\n'))

			decoded, err := plan.Decode(encoded)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(decoded).To(gomega.Equal(compiled))
		})
	}
}

func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gomega.NewWithT(t).Expect(string(got)).To(gomega.Equal(string(want)))
}

// Compile is also called on objects no schema has seen: it answers with
// errors, never with a plan that breaks an invariant.
func TestCompileWithoutSchema(t *testing.T) {
	for name, policy := range map[string]*testenv.PolicyBuilder{
		"nothing":     testenv.MakePolicy("shop/empty"),
		"a bad name":  testenv.MakePolicy("Shop/x").Limit("l", "FixedWindow", 1, "1s"),
		"no window":   testenv.MakePolicy("shop/x").Limit("l", "FixedWindow", 1, ""),
		"bad window":  testenv.MakePolicy("shop/x").Limit("l", "FixedWindow", 1, "soon"),
		"long window": testenv.MakePolicy("shop/x").Limit("l", "FixedWindow", 1, "721h"),
		"threshold":   testenv.MakePolicy("shop/x").Limit("l", "SlidingLog", 100_001, "1s"),
		"no quota":    testenv.MakePolicy("shop/x").DenyWhen("ThresholdReached").Limit("l", "FixedWindow", 1, "1s"),
		"a bad mode":  testenv.MakePolicy("shop/x").Mode("Maybe").Limit("l", "FixedWindow", 1, "1s"),
		"same names":  testenv.MakePolicy("shop/x").Limit("l", "FixedWindow", 1, "1s").Limit("l", "FixedWindow", 1, "2s"),
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			compiled, errs := compile.Compile(policy.Obj(), compile.Everything())
			g.Expect(compiled).To(gomega.BeNil())
			g.Expect(errs).NotTo(gomega.BeEmpty())
		})
	}
}
