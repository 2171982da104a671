// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

var baseline = flag.String("baseline", "", "weir that BenchmarkBaseline compares with (default: not compared)")

// mostCPU is how much CPU a decision may take in relation to the baseline.
const mostCPU = 1.02

var errMoreCPU = errors.New("a decision takes more CPU than before")

// BenchmarkBaseline fails if a decision takes more CPU than by the weir of -baseline.
func BenchmarkBaseline(b *testing.B) {
	if *baseline == "" {
		b.Log("no -baseline: nothing to compare with")
		return
	}
	for b.Loop() {
		policies := policyFolder(b, 0)
		var targets []*target
		for _, program := range []string{*baseline, process.Weir(b)} {
			redis := testenv.StartRedis(b)
			weir, _ := startProgram(b, program, policies, redis.URL, []int{redis.Pid()})
			targets = append(targets, weir)
		}
		targets[0].name = "Weir before"
		printed := &section{title: grpcTitle}
		var err error
		for range checkAttempts {
			measured := manyAllowed().pairOverGRPC(b, checkCallers, targets, *rounds)
			printed.add(measured)
			if err = checkCPU(measured); err == nil {
				break
			}
		}
		if err != nil {
			b.Error(err)
		}
	}
}

// checkCPU returns an error if a call to the second target takes more than mostCPU times the CPU of one to the first, by the
// median of the pairs.
func checkCPU(measured *scenario) error {
	ratios := make([]float64, len(measured.samples[0]))
	for round := range ratios {
		ratios[round] = serverCPU(measured.samples[1][round]) / serverCPU(measured.samples[0][round])
	}
	if ratio := middle(ratios); !(ratio <= mostCPU) {
		return fmt.Errorf("%s: %w: %s times, at most %.2f is accepted", measured.caption(), errMoreCPU, spread(ratios, "%.3f"), mostCPU)
	}
	return nil
}
