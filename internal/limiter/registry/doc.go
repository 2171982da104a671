// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry carries records from the one leader to every replica, through Redis: plans, key groups and exceptions.
//
// A Writer keeps the registry equal to the records that the leader desires. A Watcher keeps the
// snapshot of a replica equal to the registry. Neither knows where records come from or how
// they are used. The registry may be lost, wiped or restored from a backup at any time:
// replicas keep the records they run, and the leader publishes everything again.
//
// Reading order:
//
//	registry.go     names: versions, epochs, digests, errors
//	installation.go which registry a process belongs to
//	calls.go        the keys, one method per Lua script, and the decoding of replies
//	processes.go    what processes report
//	heartbeats.go   how a process reports it, once a second
//	entry.go        one desired record
//	budget.go       which records have room
//	writer.go       what the leader wants: Set, Delete, MarkSynced
//	sweep.go        deleting the records of objects that no longer exist
//	lead.go         the loop of the leader: term, observe, converge
//	inherit.go      the records of the previous leader
//	converge.go     writing changes, and beginning an epoch
//	replicas.go     the answers to the controller: Rollout, Changes, Err
//	standby.go      a process that may lead and does not decide
//	loaded.go       the records that a replica has loaded, compared with the registry
//	survey.go       when a replica finds all others, and how many are alive
//	watcher.go      the loop of a replica: heartbeat, compare, load
//	metrics.go
//
// # Layout
//
// All keys share one hash tag, so that every script may use all of them:
//
//	<prefix>1:{registry}            hash: ID -> encoded record; the ID of a plan is
//	                                "<namespace>/<name>", other kinds have a prefix, see plan.Record
//	<prefix>1:{registry}:meta       hash, see below
//	<prefix>1:{registry}:changes    sorted set: id, scored by the revision that
//	                                last set or deleted it; the newest 1,024
//	<prefix>{registry}:processes    hash: "<owner>/<kind>/<name>" -> expiry in
//	                                microseconds of server time, heartbeat as JSON;
//	                                the kinds are replica, leader and standby
//	<prefix>{registry}:term         hash, see below
//
// The channel has the name of the first key. A message only announces that there is
// something to read, so lost and foreign messages do no harm. In a Redis Cluster messages
// reach every node, so a subscription keeps working after the slot has moved. The fields of
// meta are:
//
//	epoch       one life of the registry: "<owner>/<stamp>-<random>". The stamp is
//	            server time and rises from epoch to epoch, so that a reader can
//	            distinguish a new epoch from one in a restored backup
//	revision    rises by one with every batch of changes; continues in the next
//	            epoch as far as the leader knows it
//	digest      sum of a hash of every record, independent of order: equal digests
//	            mean equal records. Computed by the writer and by every reader
//	count       number of records, to distinguish a lost hash from an empty one
//	floor       changes up to this revision may be missing in the set of changes
//	published   server time of the revision, in microseconds
//	layout      number of the layout of the keys, 1. A leader writes nothing to a later
//	            one, and a replica keeps the plans it runs
//
// The fields of term are:
//
//	term        the fencing token of one leadership: a write with a lower term is
//	            rejected. When taken it is at least the seconds of server time,
//	            so that terms rise even after this field was lost
//	holder      random name of the leadership that holds the term
//	owner       installation of the holder
//
// # Two releases
//
// During a rollout releases N-1 and N share the registry, whichever of them leads. A release that gives records a new meaning adds
// a member or a value, so that N-1 cannot decode such a record. A replica skips a record that it cannot decode, keeps the last one of
// the object, if it has one, and reports that in its heartbeat. A leader of N-1 keeps such a record as it is, until its object is
// set or deleted.
//
// # Terms and installations
//
// A term is taken only while no other leader of the installation is alive. Two leaders that
// are alive belong to two clusters of the same name, one of which is a copy.
//
// An epoch has the name of its installation. After a rename, leaders and replicas accept the
// former name too, and the leader begins an epoch under the new name once every live process
// accepts it.
//
// # Writing
//
// A write names the epoch, revision and digest it builds upon. Redis rejects it if they are
// not the current ones, so one epoch has one history. A rejected leader observes the
// registry again and finds one of these:
//
//   - a higher term: the leader is deposed;
//   - the term of another installation: it waits until that installation is gone;
//   - its own write, whose reply was lost: nothing is left to do;
//   - an earlier or empty registry: it begins a new epoch.
//
// # Reading
//
// A replica loads only a complete registry of its own installation: a later revision of its
// epoch if the digest matches, or an epoch with a later stamp. It rejects everything else,
// keeps the plans it runs and reports the rejected epoch in its heartbeat. The leader answers
// such a heartbeat with a new epoch. A replica without plans loads any complete registry of its
// installation.
package registry
