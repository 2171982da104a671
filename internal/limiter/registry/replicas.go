// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"errors"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Replica is a replica that was alive when the leader last looked.
type Replica struct {
	Name string
	// Epoch and Revision are what the replica runs.
	Epoch    string
	Revision int64
	// Skips is the number of plans the replica cannot read and Skipped names some
	// of them; it runs the last good ones instead.
	Skips   int
	Skipped []string
}

// runs reports whether the replica runs the plan as of that revision. When it
// skips more plans than it names, any may be among them.
func (r *Replica) runs(id string, e epoch, revision int64) bool {
	return r.Epoch == string(e) && r.Revision >= revision &&
		r.Skips == len(r.Skipped) && !slices.Contains(r.Skipped, id)
}

// seen is what the leader saw when it last looked.
type seen struct {
	err      error
	epoch    epoch
	replicas []Replica // by name
}

// errNotLooked is the health of the registry until a leader has seen it.
var errNotLooked = errors.New("registry not looked at yet")

// Changes is signalled when the answer of Err, Plan or Enforced may have
// changed. Signals that nobody has taken yet are one.
func (w *Writer) Changes() <-chan struct{} { return w.changed }

// Err says why the registry is not known to be as wanted: Redis cannot be
// reached, ErrOwnedElsewhere, ErrEpochLost, or ErrNotLeading. While it is not nil
// the other answers are the last known ones.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped != nil {
		return w.stopped
	}
	return w.seen.err
}

// revisionOf returns the revision since which the wanted plan of that id is in
// the registry, and false if it is not. The caller holds the lock.
func (w *Writer) revisionOf(id string) (int64, bool) {
	e := w.entries[id]
	if e == nil {
		return 0, false
	}
	return e.revision, e.revision > 0
}

// Plan returns the wanted plan of that id if it is in the registry, else nil. The
// plan that a predecessor published is as good as one that was set.
func (w *Writer) Plan(id string) *plan.Plan {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.revisionOf(id); !ok {
		return nil
	}
	e := w.entries[id]
	if e.plan == nil {
		// One that cannot be read stays nil: it is of another release.
		e.plan, _ = plan.Decode(e.data)
	}
	return e.plan
}

// Enforced returns how many of the live replicas run the wanted plan of that id.
func (w *Writer) Enforced(id string) (running, live int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	revision, ok := w.revisionOf(id)
	for i := range w.seen.replicas {
		if ok && w.seen.replicas[i].runs(id, w.seen.epoch, revision) {
			running++
		}
	}
	return running, len(w.seen.replicas)
}

// replicasAmong returns the replicas of the installation by name.
func replicasAmong(alive []report, owner string) []Replica {
	var replicas []Replica
	for _, r := range alive {
		if r.isReplica(owner) {
			replicas = append(replicas, Replica{
				Name: r.Name, Epoch: string(r.Epoch), Revision: r.Revision, Skips: r.Skips, Skipped: r.Skipped,
			})
		}
	}
	slices.SortFunc(replicas, func(a, b Replica) int { return strings.Compare(a.Name, b.Name) })
	return replicas
}

// note records who is alive and tells about changes.
func (w *Writer) note(alive []report) {
	replicas := replicasAmong(alive, w.owner)
	same := func(a, b Replica) bool {
		return a.Name == b.Name && a.Epoch == b.Epoch && a.Revision == b.Revision &&
			a.Skips == b.Skips && slices.Equal(a.Skipped, b.Skipped)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.EqualFunc(replicas, w.seen.replicas, same) {
		w.seen.replicas = replicas
		notify(w.changed)
	}
}
