// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"cmp"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/persistent"
)

// Set has the series of the policies of a view. Only one goroutine may change it.
type Set struct {
	detail  Detail
	vectors [len(counters)]*prometheus.CounterVec
	owners  map[owner]*Series
}

// NewSet returns an empty set, and registers its metrics.
func NewSet(r prometheus.Registerer, detail Detail) *Set {
	return &Set{detail: detail, vectors: newVectors(r), owners: map[owner]*Series{}}
}

// Add returns the series of the owner of the plan's decisions, for one more policy.
func (s *Set) Add(p *plan.Plan) *Series {
	owner := s.detail.owner(p)
	pm := s.owners[owner]
	if pm == nil {
		pm = &Series{owner: owner, vectors: &s.vectors}
		s.owners[owner] = pm
	}
	pm.policies++
	return pm
}

// Remove deletes the series if no policy counts in them any longer.
func (s *Set) Remove(pm *Series) {
	if pm.policies--; pm.policies == 0 {
		delete(s.owners, pm.owner)
		pm.drop()
	}
}

// Series holds the series of one policy, or of all policies of a Namespace. Each
// series is created when it is first counted.
type Series struct {
	owner    owner
	policies int // that count in them; only Set reads and changes it
	vectors  *[len(counters)]*prometheus.CounterVec

	created atomic.Pointer[seriesMap]
	mu      sync.Mutex // serializes the creation of series
	dropped bool
}

type seriesMap = persistent.Map[Key, prometheus.Counter]

// Key identifies a series of a policy.
type Key struct {
	Counter Counter
	Labels  [3]string // without namespace and policy
}

// Add adds one to the series.
func (pm *Series) Add(c Counter, labels ...string) { pm.AddUnits(c, 1, labels...) }

// AddUnits adds n to the series. After drop, it counts nothing: a decision that began before may
// end after it.
func (pm *Series) AddUnits(c Counter, n int64, labels ...string) {
	if n == 0 {
		return
	}
	if pm.owner.policy == "" && c.namesPart() {
		labels[0] = ""
	}
	key := Key{Counter: c}
	copy(key.Labels[:], labels)
	if series := pm.existing().Get(key); series != nil {
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
	created := pm.existing().With(key, series)
	pm.created.Store(&created)
}

// ID returns "<namespace>/<name>", or "<namespace>/*" for all policies of a Namespace.
func (pm *Series) ID() string { return pm.owner.namespace + "/" + cmp.Or(pm.owner.policy, "*") }

// All returns the series that have been created.
func (pm *Series) All() iter.Seq2[Key, prometheus.Counter] { return pm.existing().All() }

func (pm *Series) existing() seriesMap {
	if created := pm.created.Load(); created != nil {
		return *created
	}
	return seriesMap{}
}

// labelValues returns the values of all labels of the series.
func (pm *Series) labelValues(key Key) []string {
	own := key.Labels[:len(counters[key.Counter].labels)]
	return slices.Concat([]string{pm.owner.namespace, pm.owner.policy}, own)
}

// drop deletes the series.
func (pm *Series) drop() {
	pm.mu.Lock()
	defer pm.mu.Unlock()
	pm.dropped = true
	for key := range pm.existing().All() {
		pm.vectors[key.Counter].DeleteLabelValues(pm.labelValues(key)...)
	}
}
