// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// The kubelet forgets the back-off of earlier restarts once a container has run for 10
// minutes, so a restart before that would delay the next one.
func TestFailedManagerIsUnhealthyOnlyInAnOldProcess(t *testing.T) {
	g := NewWithT(t)
	started := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	age := time.Duration(0)
	c := &controllers{
		logger: slog.New(slog.DiscardHandler), started: started, now: func() time.Time { return started.Add(age) },
	}
	age = time.Hour
	g.Expect(c.Err()).NotTo(HaveOccurred(), "it runs")

	failure := errors.New("no such kind")
	age = time.Second
	c.fail(failure)
	for _, age = range []time.Duration{time.Second, 10 * time.Minute} {
		g.Expect(c.Err()).NotTo(HaveOccurred(), age.String())
	}
	age = 10*time.Minute + time.Second
	g.Expect(c.Err()).To(MatchError(failure))
}
