// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/persistent"
)

// seriesSet has the series of the policies of the current view. Only Engine.Use uses it.
type seriesSet struct {
	detail  Detail
	vectors [len(counters)]*prometheus.CounterVec
	owners  map[seriesOwner]*policyMetrics
}

// add returns the series of the owner of the plan's decisions, for one more policy.
func (s *seriesSet) add(p *plan.Plan) *policyMetrics {
	owner := s.detail.owner(p)
	pm := s.owners[owner]
	if pm == nil {
		pm = &policyMetrics{owner: owner, vectors: &s.vectors}
		s.owners[owner] = pm
	}
	pm.policies++
	return pm
}

// remove deletes the series if no policy counts in them any longer.
func (s *seriesSet) remove(pm *policyMetrics) {
	if pm.policies--; pm.policies == 0 {
		delete(s.owners, pm.owner)
		pm.drop()
	}
}

// policyMetrics holds the series of one policy, or of all policies of a Namespace. Each
// series is created when it is first counted.
type policyMetrics struct {
	owner    seriesOwner
	policies int // that count in them; only Engine.Use reads and changes it
	vectors  *[len(counters)]*prometheus.CounterVec

	created atomic.Pointer[seriesMap]
	mu      sync.Mutex // serializes the creation of series
	dropped bool
}

type seriesMap = persistent.Map[seriesKey, prometheus.Counter]

// seriesKey identifies a series of a policy.
type seriesKey struct {
	counter counter
	labels  [3]string
}

// add adds one to the series.
func (pm *policyMetrics) add(c counter, labels ...string) { pm.addUnits(c, 1, labels...) }

// addUnits adds n to the series. After drop, it counts nothing: a decision that began before may
// end after it.
func (pm *policyMetrics) addUnits(c counter, n int64, labels ...string) {
	if n == 0 {
		return
	}
	if pm.owner.policy == "" && c.namesPart() {
		labels[0] = ""
	}
	key := seriesKey{counter: c}
	copy(key.labels[:], labels)
	if series := pm.all().Get(key); series != nil {
		series.Add(float64(n))
		return
	}
	pm.mu.Lock()
	defer pm.mu.Unlock()
	if pm.dropped {
		return
	}
	series := pm.vectors[c].WithLabelValues(pm.labelValues(key)...)
	series.Add(float64(n))
	created := pm.all().With(key, series)
	pm.created.Store(&created)
}

// all returns the series that have been created.
func (pm *policyMetrics) all() seriesMap {
	if created := pm.created.Load(); created != nil {
		return *created
	}
	return seriesMap{}
}

// labelValues returns the values of all labels of the series.
func (pm *policyMetrics) labelValues(key seriesKey) []string {
	own := key.labels[:len(counters[key.counter].labels)]
	return slices.Concat([]string{pm.owner.namespace, pm.owner.policy}, own)
}

// drop deletes the series.
func (pm *policyMetrics) drop() {
	pm.mu.Lock()
	defer pm.mu.Unlock()
	pm.dropped = true
	for key := range pm.all().All() {
		pm.vectors[key.counter].DeleteLabelValues(pm.labelValues(key)...)
	}
}
