// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/prometheus/client_golang/prometheus"

// Values of the label outcome of reservations.
const (
	outcomeReserved  = "Reserved"
	outcomeDenied    = "Denied"
	outcomeCommitted = "Committed"
	outcomeCancelled = "Cancelled"
	outcomeRenewed   = "Renewed"
	outcomeEnded     = "Ended"   // spent at its estimate
	outcomeMissing   = "Missing" // a commit or a renewal found no open hold
)

// Values of the label outcome of charges.
const (
	outcomeCharged  = "Charged"
	outcomeRepeated = "Repeated"
)

// reservationVectors are the metrics of reservations and charges.
type reservationVectors struct {
	reservations *prometheus.CounterVec
	charges      *prometheus.CounterVec
	debt         *prometheus.CounterVec
	debtCut      *prometheus.CounterVec
	unheld       *prometheus.CounterVec
	costRatio    prometheus.Histogram
}

func newReservationVectors() reservationVectors {
	policy := []string{"namespace", "policy"}
	outcome := []string{"namespace", "policy", "outcome"}
	return reservationVectors{
		reservations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_reservations_total",
			Help: "What became of reservations, counted once per policy and key.",
		}, outcome),
		charges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_charges_total",
			Help: "Charges, counted once per policy and key. Repeated ones spent nothing.",
		}, outcome),
		debt: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_debt_units_total",
			Help: "Units above the quota that commits and charges have spent.",
		}, policy),
		debtCut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_debt_cut_units_total",
			Help: "Units above the quota that were dropped, because working them off would take longer than 720h.",
		}, policy),
		unheld: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_unheld_checks_total",
			Help: "Checks that a limit with Concurrency judged without holding anything, because they reserved nothing.",
		}, policy),
		costRatio: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "weir_reservation_cost_ratio",
			Help:    "Actual cost of committed reservations, divided by the estimate.",
			Buckets: []float64{0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.5, 2, 5, 10},
		}),
	}
}
