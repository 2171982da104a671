// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"encoding/binary"
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

	// skips are the plans that the replica cannot decode. It runs their last good version, if
	// any.
	skips skips
}

// Skips returns the number of plans that the replica cannot decode.
func (r *Replica) Skips() int { return r.skips.count }

// observation is the result of the last round of the leader.
type observation struct {
	err      error
	epoch    epoch
	replicas []Replica // by name
	fleet    fleet     // of the replicas
}

// fleet sums up replicas, so that the Rollout of a plan takes the same time with any number of them.
type fleet struct {
	epoch    string    // of all of them, unless they are mixed
	mixed    bool      // they run several epochs
	lowest   int64     // revision
	skipping []Replica // cannot decode some plans
}

// fleetOf sums up the replicas.
func fleetOf(replicas []Replica) (f fleet) {
	for i := range replicas {
		r := &replicas[i]
		if i == 0 {
			f.epoch, f.lowest = r.Epoch, r.Revision
		}
		f.mixed = f.mixed || r.Epoch != f.epoch
		f.lowest = min(f.lowest, r.Revision)
		if r.skips.count > 0 {
			f.skipping = append(f.skipping, *r)
		}
	}
	return f
}

// run reports whether all of them run the epoch at that revision or later.
func (f *fleet) run(e epoch, revision int64) bool {
	return !f.mixed && f.epoch == string(e) && revision > 0 && f.lowest >= revision
}

// skips reports whether a replica cannot decode the plan.
func (f *fleet) skips(id string) bool {
	return slices.ContainsFunc(f.skipping, func(r Replica) bool { return r.skips.contains(id) })
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

// Rollout reports which plan of that id the registry holds and how far it has got, without any
// I/O. The plan that a predecessor published counts like one that was set. A plan of another
// release that cannot be decoded counts as none.
func (w *Writer) Rollout(id string) plan.Rollout {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.errLocked()
	isElsewhere := errors.Is(err, ErrOwnedElsewhere)
	live := len(w.observed.replicas)
	published := w.published(id)
	return plan.Rollout{
		// Redis answered a leader that found the registry lost or owned elsewhere.
		Reachable:          err == nil || isElsewhere || errors.Is(err, ErrEpochLost) || errors.Is(err, errLeaderAlive),
		OwnedElsewhere:     isElsewhere,
		Record:             published.decoded(),
		OverBudget:         w.shortage(id),
		ReplicasTooOld:     w.observed.fleet.skips(id),
		HasReplicas:        live > 0,
		AllReplicasCurrent: live > 0 && w.allRun(id, published),
	}
}

// shortage returns why the plan that was set last has no room, or nil. The caller holds the
// lock.
func (w *Writer) shortage(id string) *plan.OverBudget {
	if waits := w.waiting[id]; waits != nil {
		return waits.shortage
	}
	return nil
}

// published returns the entry that the registry holds under that id, or nil. The caller holds
// the lock.
func (w *Writer) published(id string) *entry {
	if e := w.entries[id]; e.isPublished() {
		return e
	}
	return w.withdrawn[id]
}

// allRun reports whether every live replica runs the published entry of that id. The caller holds the lock.
func (w *Writer) allRun(id string, e *entry) bool {
	fleet := &w.observed.fleet
	return e != nil && fleet.run(w.observed.epoch, e.revision) && !fleet.skips(id)
}

// replicasAmong returns the replicas of the installation, sorted by name.
func replicasAmong(alive []heartbeat, accepts func(owner string) bool) []Replica {
	var replicas []Replica
	for _, r := range alive {
		if r.Kind == kindReplica && r.Epoch != "" && accepts(r.Owner) {
			hashes := make([]uint32, len(r.SkipHashes)/4)
			_, _ = binary.Decode(r.SkipHashes, binary.BigEndian, hashes) // they fit
			replicas = append(replicas, Replica{
				Name: r.Name, Epoch: string(r.Epoch), Revision: r.Revision,
				skips: skips{count: r.Skips, names: r.Skipped, hashes: hashes},
			})
		}
	}
	slices.SortFunc(replicas, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	return replicas
}

// recordReplicas stores the live replicas and signals Changes if they differ.
func (w *Writer) recordReplicas(alive []heartbeat) {
	replicas := replicasAmong(alive, w.options.Installation.accepts)
	same := func(a, b Replica) bool {
		return a.Name == b.Name && a.Epoch == b.Epoch && a.Revision == b.Revision &&
			a.skips.equal(&b.skips)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.EqualFunc(replicas, w.observed.replicas, same) {
		w.observed.replicas, w.observed.fleet = replicas, fleetOf(replicas)
		notify(w.changed)
	}
}
