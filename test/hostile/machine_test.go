// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// mostForeign is the share of the machine's CPU time that other processes may take in a round. Beyond it
// the latencies of the round are theirs, and the round is repeated.
const mostForeign = 0.1

// busyTimeout is how long a run waits for other processes, in all.
const busyTimeout = 5 * time.Minute

// machine watches how much CPU time processes beside the test take.
type machine struct {
	tb     testing.TB
	own    []int // process IDs
	waited time.Duration
	// busy is true once the test has waited too long for other processes. It then continues, and judges no
	// latencies.
	busy bool
}

// usage is CPU time, in ticks.
type usage struct{ all, busy, own int64 }

func (m *machine) usage() (u usage) {
	m.tb.Helper()
	text, err := os.ReadFile("/proc/stat")
	NewWithT(m.tb).Expect(err).NotTo(HaveOccurred())
	line, _, _ := strings.Cut(string(text), "\n")
	for i, ticks := range m.numbers(strings.Fields(line)[1:9]) {
		u.all += ticks
		switch i {
		case 0, 1, 2, 7: // user, nice, system, stolen
			u.busy += ticks
		}
	}
	for _, pid := range m.own {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		NewWithT(m.tb).Expect(err).NotTo(HaveOccurred())
		// The name of the program, in parentheses, may contain spaces.
		_, rest, _ := strings.Cut(string(stat), ") ")
		for _, ticks := range m.numbers(strings.Fields(rest)[11:13]) { // utime and stime
			u.own += ticks
		}
	}
	return u
}

func (m *machine) numbers(fields []string) (numbers []int64) {
	m.tb.Helper()
	for _, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		NewWithT(m.tb).Expect(err).NotTo(HaveOccurred())
		numbers = append(numbers, n)
	}
	return numbers
}

// foreign returns the share of other processes since before.
func (m *machine) foreign(before usage) float64 {
	m.tb.Helper()
	now := m.usage()
	return float64(now.busy-before.busy-(now.own-before.own)) / float64(max(1, now.all-before.all))
}

// awaitQuiet waits until other processes leave the machine to the test, or until it is busy.
func (m *machine) awaitQuiet() {
	m.tb.Helper()
	const step = 200 * time.Millisecond
	for before := m.usage(); !m.busy; before = m.usage() {
		<-time.After(step)
		if m.foreign(before) < mostForeign {
			return
		}
		m.waitedFor(step)
	}
}

// waitedFor adds to the time that the test has waited.
func (m *machine) waitedFor(length time.Duration) {
	m.tb.Helper()
	if m.waited += length; m.waited > busyTimeout && !m.busy {
		m.busy = true
		m.tb.Logf("other processes took more than %.0f%% of the CPU time for %v: latencies are not judged from here on", 100*mostForeign, busyTimeout)
	}
}
