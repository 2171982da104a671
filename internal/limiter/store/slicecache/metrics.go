// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package slicecache

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// Values of the labels outcome.
const (
	outcomeTaken  = "taken"
	outcomeNone   = "none" // too little was free
	outcomeFailed = "failed"

	outcomeSpent    = "spent"
	outcomeReturned = "returned"
	outcomeLost     = "lost" // the hold had ended, and was spent as a whole, or an operator had deleted it
)

type metrics struct {
	exchanges, units *prometheus.CounterVec
	denials          prometheus.Counter
}

func newMetrics(c *Cache, registerer prometheus.Registerer) *metrics {
	m := &metrics{
		exchanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_slice_exchanges_total",
			Help: "Calls to Redis that take a slice, by outcome.",
		}, []string{"outcome"}),
		units: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_slice_units_total",
			Help: "Units of slices that this replica has ended, by outcome. Lost units were counted but not spent.",
		}, []string{"outcome"}),
		denials: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_slice_denials_total",
			Help: "Denials caused only by units held in other replicas' slices.",
		}),
	}
	for _, outcome := range []string{outcomeTaken, outcomeNone, outcomeFailed} {
		m.exchanges.WithLabelValues(outcome)
	}
	for _, outcome := range []string{outcomeSpent, outcomeReturned, outcomeLost} {
		m.units.WithLabelValues(outcome)
	}
	if registerer != nil {
		keys := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "weir_slice_keys", Help: "Keys of which this replica has a slice.",
		}, func() float64 { return float64(c.keys.count()) })
		registerer.MustRegister(m.exchanges, m.units, m.denials, keys)
	}
	return m
}

func (m *metrics) exchanged(outcome string) { m.exchanges.WithLabelValues(outcome).Inc() }

// committed counts the units of a slice after its commit.
func (m *metrics) committed(s *slice, spent int64, r *store.EntryReply) {
	if s.units == 0 {
		return // it was never received
	}
	rest := outcomeReturned
	if r.Hold != store.HoldFound {
		rest = outcomeLost
	}
	m.units.WithLabelValues(outcomeSpent).Add(float64(spent))
	m.units.WithLabelValues(rest).Add(float64(s.units - spent))
}

// countDenials counts the policies of the call that deny because units are held.
func (m *metrics) countDenials(call *store.Call, reply *store.Reply) {
	for i := range reply.Entries {
		if e := &call.Entries[i]; e.Policy.TakesSlices() && !e.Peek && reply.Entries[i].OnlyHoldsDeny() {
			m.denials.Inc()
		}
	}
}
