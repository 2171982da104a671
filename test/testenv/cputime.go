// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// CPUTime returns the CPU time of the processes so far. It adds up the times of their threads, which Linux counts in nanoseconds;
// the time of a whole process has a resolution of 10 ms.
func CPUTime(tb testing.TB, pids ...int) (sum time.Duration) {
	tb.Helper()
	for _, pid := range pids {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if len(threads) == 0 {
			tb.Fatalf("CPU time of process %d: it has no threads", pid)
		}
		for _, thread := range threads {
			running, err := runningTime(thread)
			if err != nil {
				tb.Fatalf("CPU time of process %d: %v", pid, err)
			}
			sum += running
		}
	}
	return sum
}

// runningTime reads the CPU time of a thread; 0 if the thread has ended.
func runningTime(schedstat string) (time.Duration, error) {
	text, err := os.ReadFile(schedstat)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	running, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseInt(running, 10, 64)
	return time.Duration(n), err
}
