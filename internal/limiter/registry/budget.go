// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// usage counts the desired plans, of each Namespace and of all. The lock of the Writer guards
// it.
type usage struct {
	byNamespace map[string]plan.Usage
	total       plan.Usage
	// released means that waiting plans must be judged: the usage has fallen, or they never were.
	released bool
}

func newUsage() usage { return usage{byNamespace: map[string]plan.Usage{}} }

// replace counts the next entry of the ID instead of the old one; nil is none.
func (u *usage) replace(id string, old, next *entry) {
	change := changeOf(old, next)
	namespace, _ := plan.SplitID(id)
	used := u.byNamespace[namespace]
	used.Add(change)
	u.byNamespace[namespace] = used
	if used == (plan.Usage{}) {
		delete(u.byNamespace, namespace)
	}
	u.total.Add(change)
	u.released = u.released || change.Released()
}

// changeOf returns how the usage changes.
func changeOf(old, next *entry) (change plan.Usage) {
	if old != nil {
		change = change.Minus(old.usage)
	}
	if next != nil {
		change.Add(next.usage)
	}
	return change
}

// waitingEntry is a desired record without room in its budget, or one that is not judged yet. The last record of the
// object stays in the registry.
type waitingEntry struct {
	// entry is without the encoding if the record has no room: otherwise what has no room would take the memory that the
	// budgets protect.
	*entry
	created  time.Time
	dropLast bool
	shortage *plan.OverBudget // nil until it is judged
	asked    bool             // see Wanted
}

// forgetWaiting forgets that the record waits. The caller holds the lock.
func (w *Writer) forgetWaiting(id string) {
	if waits := w.waiting[id]; waits != nil && waits.hasData() {
		w.unjudged.replace(id, waits.entry, nil)
	}
	delete(w.waiting, id)
}

// Wanted returns the IDs of records that waited and have room now, and of which the Writer has kept only the name, the
// UID and the size. Each is returned once: the caller must Set it again. Changes announces them.
func (w *Writer) Wanted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	wanted := w.wanted
	w.wanted = nil
	return wanted
}

// canJudge reports whether the usage is complete. It is not before the plans of the previous
// leader are read, nor while a lost registry awaits the plans that it held. The caller holds
// the lock.
func (w *Writer) canJudge() bool {
	return w.inherited && (w.synced || w.holds)
}

// shortageOf returns why the entry does not fit into the budgets beside the asked records, or nil. The caller holds the
// lock.
func (w *Writer) shortageOf(id string, next *entry, asked usage) *plan.OverBudget {
	namespace, _ := plan.SplitID(id)
	used, total := w.usage.byNamespace[namespace], w.usage.total
	used.Add(asked.byNamespace[namespace])
	total.Add(asked.total)
	return w.options.Budgets.Shortage(namespace, changeOf(w.entries[id], next), used, total)
}

// mustWait records an entry that does not fit into the budgets, or that cannot be judged yet,
// and reports whether it did. The caller holds the lock.
func (w *Writer) mustWait(id string, next *entry, o plan.SetOptions) bool {
	var shortage *plan.OverBudget
	if o.WasProgrammed || next == nil {
		return false
	}
	if w.canJudge() {
		if shortage = w.shortageOf(id, next, usage{}); shortage == nil {
			return false
		}
	}
	waits := &waitingEntry{entry: next, created: o.Created, dropLast: o.DropLast}
	w.waiting[id] = waits
	if shortage != nil {
		w.keepWaiting(id, waits, shortage)
		return true
	}
	w.usage.released = true // judge it in the next round
	namespace, _ := plan.SplitID(id)
	if w.options.Budgets.Shortage(namespace, next.usage, w.unjudged.byNamespace[namespace], w.unjudged.total) != nil {
		waits.entry = next.withoutData() // they cannot all have room
	} else {
		w.unjudged.replace(id, nil, next)
	}
	return true
}

// batchOf returns the batch that a call for a waiting plan waits for, or nil if there is
// nothing to write. The caller holds the lock.
func (w *Writer) batchOf(id string) *batch {
	if w.waiting[id].shortage != nil && !w.isDirty(id) {
		return nil
	}
	return w.batch
}

// keepWaiting records why a plan waits, and forgets its encoding. The caller holds the lock.
func (w *Writer) keepWaiting(id string, waits *waitingEntry, shortage *plan.OverBudget) {
	waits.entry = waits.withoutData()
	if waits.shortage == nil || *waits.shortage != *shortage {
		waits.shortage = shortage
		notify(w.changed)
	}
	if waits.dropLast && w.entries[id] != nil {
		w.replace(id, nil)
		w.markDirty(id)
	}
}

// admitWaiting makes the waiting plans that fit into the budgets desired, the oldest policy
// first, or asks for them if they are forgotten.
func (w *Writer) admitWaiting() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.usage.released || !w.canJudge() {
		return
	}
	w.usage.released, w.unjudged = false, newUsage()
	asked := newUsage() // in this round
	for _, id := range w.waitingInOrder() {
		waits := w.waiting[id]
		shortage := w.shortageOf(id, waits.entry, asked)
		switch {
		case shortage != nil:
			w.keepWaiting(id, waits, shortage)
		case waits.hasData():
			delete(w.waiting, id)
			waits.keepEqual(w.entries[id])
			w.replace(id, waits.entry)
			w.markDirty(id)
			notify(w.changed)
		case !waits.asked:
			waits.asked = true
			asked.replace(id, w.entries[id], waits.entry)
			w.wanted = append(w.wanted, id)
			notify(w.changed)
		}
	}
}

// waitingInOrder returns the IDs of the waiting plans: the oldest policy first, then by UID.
// The caller holds the lock.
func (w *Writer) waitingInOrder() []string {
	return slices.SortedFunc(maps.Keys(w.waiting), func(a, b string) int {
		one, other := w.waiting[a], w.waiting[b]
		return cmp.Or(one.created.Compare(other.created), strings.Compare(one.uid, other.uid))
	})
}

// The total has no label namespace: scrapers would replace an empty one by the pod's.
var (
	namespaceUse = prometheus.NewDesc("weir_namespace_budget_used_ratio",
		"Leader: used part of the budget of a Namespace, where 1 is all.", []string{"namespace", "resource"}, nil)
	totalUse = prometheus.NewDesc("weir_budget_used_ratio",
		"Leader: used part of the budget of all Namespaces together, where 1 is all.", []string{"resource"}, nil)
)

// Describe implements prometheus.Collector: the Writer exports how much of the budgets is used
// while Lead runs.
func (w *Writer) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- namespaceUse
	descriptions <- totalUse
}

// Collect implements prometheus.Collector.
func (w *Writer) Collect(metrics chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped != nil {
		return
	}
	export := func(desc *prometheus.Desc, used plan.Usage, budget plan.Budget, labels ...string) {
		limits, usage := plan.Usage(budget), used.Parts()
		for i, limit := range limits.Parts() {
			if limit.N > 0 {
				metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue,
					float64(usage[i].N)/float64(limit.N), append(labels, limit.Resource)...)
			}
		}
	}
	export(totalUse, w.usage.total, w.options.Budgets.Total)
	for namespace, used := range w.usage.byNamespace {
		export(namespaceUse, used, w.options.Budgets.Namespace, namespace)
	}
}
