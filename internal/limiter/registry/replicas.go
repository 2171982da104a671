// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Replica is a live replica, as of the last heartbeat.
type Replica struct {
	Name string
	// Epoch and Revision identify the plans that the replica runs.
	Epoch    string
	Revision int64
	// Skips is the number of plans that the replica cannot decode; Skipped names some. It
	// runs their last good version, if any.
	Skips   int
	Skipped []string

	format format // of these plans
}

// runs reports whether the replica runs the plan as of that revision. A heartbeat names at
// most namedSkips skipped plans. If the replica skips more, any plan may be among them, so
// runs is false for all.
func (r *Replica) runs(id string, e epoch, revision int64) bool {
	return r.Epoch == string(e) && r.Revision >= revision &&
		r.Skips == len(r.Skipped) && !slices.Contains(r.Skipped, id)
}

// observation is the result of the last round of the leader.
type observation struct {
	err      error
	epochs   [maxFormats]epoch // by position of the format
	replicas []Replica         // by name
}

// errNotObserved is the error of the first observation.
var errNotObserved = errors.New("registry not observed yet")

// Changes receives a value after the result of Err or Rollout may have changed.
// Values that were not received yet are coalesced into one.
func (w *Writer) Changes() <-chan struct{} { return w.changed }

// Err returns why the registry may differ from the desired plans: Redis cannot be
// reached or was not observed yet, ErrOwnedElsewhere, ErrEpochLost, ErrNotLeading or
// ErrDeposed. While it is not nil Rollout returns the last known plan and replicas.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.errLocked()
}

// errLocked is Err for a caller that holds the lock.
func (w *Writer) errLocked() error {
	if w.stopped != nil {
		return w.stopped
	}
	return w.observed.err
}

// Rollout reports how far the desired plan of that id has got, without any I/O. The
// plan that a predecessor published counts like one that was set.
func (w *Writer) Rollout(id string) plan.Rollout {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.errLocked()
	isElsewhere := errors.Is(err, ErrOwnedElsewhere)
	live := len(w.observed.replicas)
	return plan.Rollout{
		// Redis answered a leader that found the registry lost or owned elsewhere.
		Reachable:          err == nil || isElsewhere || errors.Is(err, ErrEpochLost) || errors.Is(err, errLeaderAlive),
		OwnedElsewhere:     isElsewhere,
		Plan:               w.storedPlan(id),
		ReplicasTooOld:     w.hasReplicaTooOld(id),
		HasReplicas:        live > 0,
		AllReplicasCurrent: live > 0 && w.replicasRunning(id) == live,
	}
}

// storedPlan returns the desired plan of that id if it is in the registry, else nil. A plan
// of another release that cannot be decoded counts as none. The caller holds the lock.
func (w *Writer) storedPlan(id string) *plan.Plan {
	if e := w.entries[id]; e.isPublished(w.begun) {
		return e.decoded()
	}
	return nil
}

// replicasRunning counts the live replicas that run the desired plan of that id.
// The caller holds the lock.
func (w *Writer) replicasRunning(id string) (running int) {
	e := w.entries[id]
	if !e.isPublished(w.begun) {
		return 0
	}
	for i := range w.observed.replicas {
		r := &w.observed.replicas[i]
		slot := slices.Index(w.supported, r.format)
		if slot >= 0 && e.forms[slot].revision > 0 && r.runs(id, w.observed.epochs[slot], e.forms[slot].revision) {
			running++
		}
	}
	return running
}

// hasReplicaTooOld reports whether a live replica follows a format that cannot express the
// desired plan of that id. The caller holds the lock.
func (w *Writer) hasReplicaTooOld(id string) bool {
	e := w.entries[id]
	return e != nil && slices.ContainsFunc(w.observed.replicas, func(r Replica) bool {
		slot := slices.Index(w.supported, r.format)
		return slot >= 0 && e.forms[slot].inexpressible
	})
}

// replicasAmong returns the replicas of the installation, sorted by name.
func replicasAmong(alive []report, accepts func(owner string) bool) []Replica {
	var replicas []Replica
	for _, r := range alive {
		if r.Kind == kindReplica && r.Epoch != "" && accepts(r.Owner) {
			replicas = append(replicas, Replica{
				Name: r.Name, Epoch: string(r.Epoch), Revision: r.Revision, Skips: r.Skips, Skipped: r.Skipped,
				format: r.Format,
			})
		}
	}
	slices.SortFunc(replicas, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	return replicas
}

// recordReplicas stores the live replicas and signals Changes if they differ.
func (w *Writer) recordReplicas(alive []report) {
	replicas := replicasAmong(alive, w.installation.accepts)
	same := func(a, b Replica) bool {
		return a.Name == b.Name && a.format == b.format && a.Epoch == b.Epoch && a.Revision == b.Revision &&
			a.Skips == b.Skips && slices.Equal(a.Skipped, b.Skipped)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.EqualFunc(replicas, w.observed.replicas, same) {
		w.observed.replicas = replicas
		notify(w.changed)
	}
}
