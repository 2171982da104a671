// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

const (
	// instructionsOfDecision is how many instructions a decision takes. A change that saves instructions lowers it. A
	// change that needs more raises it, and its commit gives the reason.
	instructionsOfDecision = 78_000
	// mostInstructions is how many times as many instructions BenchmarkInstructions accepts. Runs differ by less than 1 %.
	mostInstructions = 1.02

	valgrindHint = "run hack/valgrind.sh"
)

var errInstructions = errors.New("a decision takes more instructions than documented")

// BenchmarkInstructions fails if a decision takes more instructions than instructionsOfDecision. Valgrind counts them, so
// that other load on the machine makes no difference. Collections of garbage do not count: test/ledger bounds the garbage.
func BenchmarkInstructions(b *testing.B) {
	for b.Loop() {
		var err error
		for range checkAttempts {
			measured := instructionsOf(b, manyAllowed(), 5000)
			b.ReportMetric(measured, "instructions/decision")
			if err = checkInstructions(measured); err == nil {
				break
			}
		}
		if err != nil {
			b.Error(err)
		}
	}
}

func checkInstructions(measured float64) error {
	if most := mostInstructions * instructionsOfDecision; !(measured > 0 && measured <= most) {
		return fmt.Errorf("%w: %.0f, at most %.0f are accepted", errInstructions, measured, most)
	}
	return nil
}

func TestCheckInstructions(t *testing.T) {
	g := NewWithT(t)
	g.Expect(checkInstructions(instructionsOfDecision)).To(Succeed())
	g.Expect(checkInstructions(1.03 * instructionsOfDecision)).To(MatchError(errInstructions))
	g.Expect(checkInstructions(0)).To(MatchError(errInstructions), "nothing was counted")
}

// instructionsOf returns how many instructions of weir a decision of the workload takes, after as many others.
func instructionsOf(tb testing.TB, w *workload, decisions int) float64 {
	tb.Helper()
	g := NewWithT(tb)
	redis, address, profile := testenv.StartRedis(tb), testenv.FreeAddr(tb), filepath.Join(tb.TempDir(), "profile")
	cmd := testenv.Command(testenv.ProgramOnPath(tb, "valgrind", valgrindHint), "--tool=callgrind", "--callgrind-out-file="+profile,
		process.Weir(tb), "standalone", "--policies", policyFolder(tb, 0), "--redis-url", redis.URL, "--store-timeout", "1m",
		"--grpc-address", address, "--http-address", "", "--operator-address", "", "--metrics-address", "")
	// Signals, which would preempt goroutines, end Callgrind.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1")
	g.Expect(cmd.Start()).To(Succeed())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	g.Eventually(func() error { return dial(address) }, "2m", "100ms").Should(Succeed())
	control := func(flag string) {
		out, err := testenv.Command("callgrind_control", flag, strconv.Itoa(cmd.Process.Pid)).CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(out))
	}
	calls := w.overGRPC(tb, &target{address: address, connect: connectEnvoy}, 16)
	decide(tb, calls, decisions)
	control("--zero")
	decide(tb, calls, decisions)
	control("--dump")
	text, err := os.ReadFile(profile + ".1")
	g.Expect(err).NotTo(HaveOccurred())
	summary := regexp.MustCompile(`(?m)^summary: (\d+)`).FindSubmatch(text)
	g.Expect(summary).To(HaveLen(2))
	total, err := strconv.ParseFloat(string(summary[1]), 64)
	g.Expect(err).NotTo(HaveOccurred())
	return total / float64(decisions)
}

// decide makes a number of decisions, divided among the callers.
func decide(tb testing.TB, callers []call, decisions int) {
	tb.Helper()
	var all sync.WaitGroup
	for i, call := range callers {
		all.Go(func() {
			for n := i; n < decisions; n += len(callers) {
				if err := call(tb.Context(), n/len(callers)); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
