// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// The store is low on memory from lowAbove on, until less than enoughBelow is used.
const (
	lowAbove    = 0.80
	enoughBelow = 0.75
)

// checkPeriod is the time between two looks at the memory of the store.
const checkPeriod = 2 * time.Second

// Memory watches the memory of the store.
type Memory struct {
	use    func(context.Context) (float64, error)
	logger *slog.Logger
	low    atomic.Bool
	failed bool // the last measurement failed
}

// NewMemory returns a watch that is not started. use returns the share of its memory limit that
// the store uses, 0 without a limit.
func NewMemory(use func(context.Context) (float64, error), logger *slog.Logger) *Memory {
	return &Memory{use: use, logger: logger}
}

// Low reports whether the store is nearly full.
func (m *Memory) Low() bool { return m.low.Load() }

// Start looks at the memory every two seconds until ctx ends.
func (m *Memory) Start(ctx context.Context) error {
	for {
		m.measure(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(checkPeriod):
		}
	}
}

// measure updates Low. While the use is unknown, Low stays as it is.
func (m *Memory) measure(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, checkPeriod)
	defer cancel()
	use, err := m.use(limited)
	if err != nil {
		if !m.failed && ctx.Err() == nil {
			m.logger.Warn("Failed to read the memory use of Redis", "error", err)
		}
		m.failed = true
		return
	}
	m.failed = false
	switch low := m.low.Load(); {
	case !low && use >= lowAbove:
		m.low.Store(true)
		m.logger.Error("Redis is low on memory; unknown keys share a budget for each policy", "use", use)
	case low && use < enoughBelow:
		m.low.Store(false)
		m.logger.Info("Redis has enough memory again", "use", use)
	}
}
