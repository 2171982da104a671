// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build clocks

package system

import (
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// A Go program that is built with the overlay adds the offset to its clock, and only then.
func TestOverlay(t *testing.T) {
	g := NewWithT(t)
	program := filepath.Join(testenv.ModuleRoot(t), "bin", "test", "clock")
	testenv.ProgramAt(t, program, "run hack/clocks.sh, which builds it")
	g.Expect(hasOffset(program)).To(BeTrue())
	g.Expect(hasOffset("/bin/sh")).To(BeFalse())
	for _, offset := range []time.Duration{0, time.Hour, -1500 * time.Millisecond} {
		env, err := goOffset(program, []time.Duration{offset}, 0)
		g.Expect(err).NotTo(HaveOccurred())
		run := testenv.CommandContext(t.Context(), program)
		run.Env = env
		begin := time.Now()
		output, err := run.CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred())
		millis, err := time.ParseDuration(string(output[:len(output)-1]) + "ms")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(time.UnixMilli(millis.Milliseconds())).To(BeTemporally("~", begin.Add(offset), time.Since(begin)+time.Millisecond))
	}
	_, err := goOffset("/bin/sh", []time.Duration{time.Second}, 0)
	g.Expect(err).To(MatchError(ErrUnsupported))
}
