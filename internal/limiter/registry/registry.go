// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registry carries plans from the one leader to every replica, through
// Redis.
//
// A Writer keeps the registry as its leader wants it; a Watcher keeps a
// replica's snapshot as the registry is. Neither knows where plans come from
// or what is done with them. The registry may be lost, wiped or restored from
// a backup at any time: replicas keep what they run, and the leader publishes
// everything anew.
//
// # Layout
//
// All keys share one hash tag, so that every script may touch them all:
//
//	<prefix>1:{registry}            hash: "<namespace>/<name>" -> encoded plan
//	<prefix>1:{registry}:meta       hash, see below
//	<prefix>1:{registry}:changes    sorted set: id, scored by the revision that
//	                                last set or deleted it; the newest 1,024
//	<prefix>1:{registry}:replicas   hash: "<owner>/<replica>" -> end of life in
//	                                microseconds of server time, report as JSON;
//	                                the leader is "<owner>/"
//
// The channel has the name of the first key. A message only says that there is
// something to read, so a lost or a foreign one does no harm. In a Redis Cluster it
// reaches every node, so a replica may go on listening where the registry has moved
// away from. meta has
//
//	epoch       one life of the registry: "<owner>/<stamp>-<random>". Stamps are
//	            server time and rise from epoch to epoch, so that a reader can
//	            tell a new life from an old one out of a backup
//	revision    rises by one with every batch of changes; goes on rising in the
//	            next epoch as far as the leader knows it
//	digest      sum of a hash of every plan, so independent of order: equal
//	            digests mean equal plans. Computed by who writes and by who reads
//	count       number of plans: a lost hash is no empty one
//	floor       changes up to this revision may be missing in the set of changes
//	published   server time of the revision, in microseconds
//	term        one leadership; higher ones fence off lower ones. Never below the
//	            seconds of server time, so that terms rise when this is lost
//	holder      random name of the leadership that holds the term
//
// # Writing
//
// A leader knows what it has written. A write names the epoch, revision and
// digest it builds upon, and Redis refuses it if that is not what is there. So
// within one epoch there is one history, and a leader that is refused looks
// again: somebody has a higher term (it is deposed), another installation owns
// the registry (it waits until that one is gone), its own write arrived
// although the reply did not (all is well), or the registry has gone back or
// is gone (it begins a new epoch).
//
// # Reading
//
// A replica loads a later revision of its epoch, if its digest is right, and
// any epoch with a later stamp. Everything else it refuses, keeps what it runs
// and reports the epoch it does not trust. The leader answers such a report
// with a new epoch. A replica that runs nothing loads whatever is whole.
package registry

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	// layoutVersion is part of every key: during a rollout two releases use the
	// same Redis.
	layoutVersion = "1:"

	// period is how often leader and replicas compare and say that they are alive.
	period = time.Second

	// lifetime is how long a heartbeat holds.
	lifetime = 3 * time.Second

	// shortestRetry and longestRetry bound the wait after a failure.
	shortestRetry = 50 * time.Millisecond
	longestRetry  = 500 * time.Millisecond

	// rememberedChanges bounds the set of changes. A replica that lags by more
	// loads all plans.
	rememberedChanges = 1024
)

// Errors that callers tell apart.
var (
	// ErrNotLeading means that Lead is not running.
	ErrNotLeading = errors.New("not the leader")

	// ErrDeposed means that another leadership has begun since.
	ErrDeposed = errors.New("deposed by a later leader")

	// ErrOwnedElsewhere means that another installation, which is alive, uses the
	// same Redis and prefix.
	ErrOwnedElsewhere = errors.New("registry is owned by another installation")

	// ErrEpochLost means that the registry is empty or has gone back, and that the
	// leader does not know all plans yet, see Writer.Synced.
	ErrEpochLost = errors.New("registry waits for all plans to be known")

	// ErrOlderGeneration means that a newer generation of the same policy was
	// published.
	ErrOlderGeneration = errors.New("a newer generation was published")

	// errMoved means that the registry is not what the leader has last seen.
	errMoved = errors.New("registry keeps changing")
)

// mark is one state of the registry. No two states have the same.
type version struct {
	epoch    epoch
	revision int64
	digest   string
}

// epoch names one life of the registry; "" is none.
type epoch string

func newEpoch(owner string, stamp int64, random string) epoch {
	return epoch(fmt.Sprintf("%s/%d-%s", owner, stamp, random))
}

// owner is the installation that began the epoch.
func (e epoch) owner() string {
	return string(e[:max(0, strings.LastIndexByte(string(e), '/'))])
}

// stamp orders epochs.
func (e epoch) stamp() int64 {
	last := string(e[strings.LastIndexByte(string(e), '/')+1:])
	digits, _, _ := strings.Cut(last, "-")
	stamp, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return math.MinInt64 // not ours, so earlier than all that are
	}
	return stamp
}

// digestOf is what one plan adds to the digest of the registry. It is to find
// accidents, so 64 bits do.
func digestOf(id string, data []byte) uint64 {
	h := sha256.New()
	h.Write([]byte(id))
	h.Write([]byte{0})
	h.Write(data)
	return binary.BigEndian.Uint64(h.Sum(nil))
}

func formatDigest(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// backoff is the wait after that many failures in a row.
func backoff(failures int) time.Duration {
	return min(longestRetry, shortestRetry<<min(failures, 10))
}
