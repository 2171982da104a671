// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
)

const (
	// checkCallers is the number of callers of BenchmarkCheck.
	checkCallers = 64

	// checkAttempts is how often BenchmarkCheck measures before it fails: other load on the
	// machine can make one measurement too low.
	checkAttempts = 3

	// keptShare is the part of the documented share of the no-op's throughput that Weir must
	// keep. The rest is noise: between runs on one machine the median moves by up to a tenth.
	keptShare = 0.85
)

var errSlower = errors.New("slower than documented")

// BenchmarkCheck fails if Weir has become slower, in relation to a no-op service, than
// docs/performance.md documents.
func BenchmarkCheck(b *testing.B) {
	for b.Loop() {
		g := NewWithT(b)
		text, err := os.ReadFile("../../docs/performance.md")
		g.Expect(err).NotTo(HaveOccurred())
		documented, err := parsePage(string(text))
		g.Expect(err).NotTo(HaveOccurred())
		weir, _ := weirTargets(b, policyFolder(b, 0))
		targets := []*target{noopTarget(b, plainNoop, noopPlain, nil), weir}
		printed := &section{title: grpcTitle}
		for _, w := range checkedWorkloads() {
			w.exhaust(b, weir)
			var err error
			for range checkAttempts {
				measured := w.pairOverGRPC(b, checkCallers, targets, *rounds)
				printed.add(measured)
				if err = documented.check(measured.caption(), middle(measured.shares(1))); err == nil {
					break
				}
			}
			if err != nil {
				b.Error(err)
			}
		}
	}
}

func checkedWorkloads() []*workload { return []*workload{manyAllowed(), oneDenied()} }

// isChecked reports whether BenchmarkCheck compares with the scenario.
func (s *scenario) isChecked() bool {
	return s.callers == checkCallers && slices.ContainsFunc(checkedWorkloads(), func(w *workload) bool { return w.name == s.name })
}

// check returns an error if the share of Weir in the table with the caption is less than
// keptShare of the documented one, or if none is documented.
func (p *page) check(caption string, measured float64) error {
	documented, err := p.share(grpcTitle, caption, weirName)
	if err != nil {
		return err
	}
	if least := keptShare * documented; !(measured >= least) {
		return fmt.Errorf("%s: %w: Weir reaches %.3f of the no-op's throughput; docs/performance.md has %.2f, at least %.3f is required",
			caption, errSlower, measured, documented, least)
	}
	return nil
}

func TestCheck(t *testing.T) {
	p, err := parsePage(samplePage)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	const allowed = "10,000 keys, allowed, callers: 64"
	for name, tc := range map[string]struct {
		caption  string
		measured float64
		want     error
	}{
		"faster":             {allowed, 0.70, nil},
		"as documented":      {allowed, 0.55, nil},
		"within the noise":   {allowed, 0.47, nil},
		"slower":             {allowed, 0.46, errSlower},
		"no measurement":     {allowed, 0, errSlower},
		"an unknown table":   {"10,000 keys, allowed, callers: 6", 0.70, errPage},
		"an unusable number": {"one key, denied, callers: 64", 0.70, errPage},
	} {
		t.Run(name, func(t *testing.T) {
			err := p.check(tc.caption, tc.measured)
			if tc.want == nil {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			} else {
				NewWithT(t).Expect(err).To(MatchError(tc.want))
			}
		})
	}
}

// The page documents the scenarios of BenchmarkCheck.
func TestPageHasScenariosOfCheck(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile("../../docs/performance.md")
	g.Expect(err).NotTo(HaveOccurred())
	p, err := parsePage(string(text))
	g.Expect(err).NotTo(HaveOccurred())
	for _, w := range []*workload{manyAllowed(), oneDenied()} {
		caption := (&scenario{name: w.name, callers: checkCallers}).caption()
		g.Expect(p.check(caption, 1)).To(Succeed())
	}
}
