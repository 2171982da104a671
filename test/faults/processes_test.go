// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// processFaults are the faults of weir processes that share one Redis.
func processFaults() (faults []fault) {
	for n := 1; n <= 4; n++ {
		faults = append(faults, fault{
			name: fmt.Sprintf("each of %d `weir` processes killed and restarted", n), drops: true,
			setup: func(t *testing.T) *system {
				t.Helper()
				s := startSingle(t).system(nil, nil)
				s.weirs = n
				s.begin = func() { s.restart(syscall.SIGKILL) }
				return s
			},
		})
	}
	return append(faults, fault{
		name: "each of 2 `weir` processes frozen for 2 s (`SIGSTOP`)", mayDegrade: true,
		setup: func(t *testing.T) *system {
			t.Helper()
			s := startSingle(t).system(nil, nil)
			s.weirs = 2
			s.begin = func() { s.freeze(t, 2*time.Second) }
			return s
		},
	}, fault{
		name: "each of 2 `weir` processes terminated (`SIGTERM`) and restarted",
		setup: func(t *testing.T) *system {
			t.Helper()
			s := startSingle(t).system(nil, nil)
			s.weirs, s.args = 2, []string{"--drain-delay", "500ms"}
			s.begin = func() { s.restart(syscall.SIGTERM) }
			return s
		},
	})
}

// restart stops the processes one after the other by the signal, and starts each again.
func (s *system) restart(signal syscall.Signal) {
	for i, w := range s.processes {
		if s.load != nil {
			s.load.awaitSlice(i)
		}
		w.stop(signal)
		w.start()
		if s.load != nil { // else the next process could stop before the load calls this one again
			await(w.tb, "calls to the process", s.load.ready[i].Load)
		}
	}
}

// freeze halts the processes one after the other for a time, each while it has slices. Meanwhile the load calls the
// others.
func (s *system) freeze(t *testing.T, length time.Duration) {
	t.Helper()
	for i, w := range s.processes {
		s.load.awaitSlice(i)
		testenv.Halt(t, w.cmd.Process)
		s.load.ready[i].Store(false)
		pass(t, length)
		NewWithT(t).Expect(w.cmd.Process.Signal(syscall.SIGCONT)).To(Succeed())
		await(t, "calls to the process", s.load.ready[i].Load)
	}
}

func TestFaultsOfProcesses(t *testing.T) {
	runEach(t, processFaults())
}
