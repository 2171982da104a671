// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// repairs counts and logs the keys whose value was not a state of a limit: another program has written to
// Redis. A script counted the state as missing and replaced it.
type repairs struct {
	total       prometheus.Counter
	logger      *slog.Logger
	everySecond rate.Sometimes
}

func newRepairs(logger *slog.Logger) *repairs {
	return &repairs{
		total: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_repaired_counters_total",
			Help: "Keys of counters in Redis that held a foreign value or type and were overwritten.",
		}),
		logger: logger, everySecond: rate.Sometimes{Interval: time.Second},
	}
}

// report counts the repairs of a call, and logs one a second.
func (r *repairs) report(call *store.Call, repaired []int) {
	for _, i := range repaired {
		r.total.Inc()
		r.everySecond.Do(func() {
			e := &call.Entries[i]
			r.logger.Error("Repaired a counter in Redis; another program has written to it",
				"policy", e.Policy.ID(), "keyHash", e.Key.Hash())
		})
	}
}
