// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const (
	// period is the interval of heartbeats and of comparisons with the registry.
	period = time.Second

	// lifetime is the time after which a replica without a heartbeat counts as gone.
	lifetime = 3 * time.Second

	// subscriptionCheck is the interval in which the connection that receives announcements is checked. While it is broken,
	// a change is found by the next comparison.
	subscriptionCheck = 30 * time.Second

	// shortestRetry and longestRetry bound the backoff after failures.
	shortestRetry = 50 * time.Millisecond
	longestRetry  = 500 * time.Millisecond

	// rememberedChanges bounds the set of changes. A replica that lags further behind
	// loads all plans.
	rememberedChanges = 1024
)

// Errors.
var (
	// ErrNotLeading means that Lead is not running.
	ErrNotLeading = errors.New("not the leader")

	// ErrDeposed means that another leader has begun a later term.
	ErrDeposed = errors.New("deposed by a later leader")

	// ErrOwnedElsewhere means that another live installation owns the registry at this
	// Redis and prefix.
	ErrOwnedElsewhere = errors.New("registry is owned by another installation")

	// ErrEpochLost means that the registry is empty or went back to an earlier state, and
	// that the leader does not know all plans yet; see Writer.MarkSynced.
	ErrEpochLost = errors.New("registry lost: not all plans are known yet")

	// errLeaderAlive means that another leader of this installation is still alive.
	errLeaderAlive = errors.New("another leader of this installation is still alive")

	// errLaterLayout means that a later release has written the registry in a layout of its own.
	errLaterLayout = errors.New("the registry has a layout that only a later release writes")

	// errConflict means that the registry has changed since the leader observed it.
	errConflict = errors.New("registry changed concurrently")
)

// version identifies one state of the registry.
type version struct {
	epoch    epoch
	revision int64
	digest   string
}

// epoch identifies one life of the registry; "" means no epoch.
type epoch string

func newEpoch(owner string, stamp int64, random string) epoch {
	return epoch(fmt.Sprintf("%s/%d-%s", owner, stamp, random))
}

// owner returns the installation that began the epoch.
func (e epoch) owner() string {
	return string(e[:max(0, strings.LastIndexByte(string(e), '/'))])
}

// stamp returns the server time of the epoch, which orders epochs.
func (e epoch) stamp() int64 {
	last := string(e[strings.LastIndexByte(string(e), '/')+1:])
	digits, _, _ := strings.Cut(last, "-")
	stamp, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return math.MinInt64 // not written by Weir: earlier than every other epoch
	}
	return stamp
}

// digestOf returns the summand of one plan in the digest of the registry. 64 bits suffice
// because it detects accidents, not attacks.
func digestOf(id string, data []byte) uint64 {
	h := sha256.New()
	h.Write([]byte(id))
	h.Write([]byte{0})
	h.Write(data)
	return binary.BigEndian.Uint64(h.Sum(nil))
}

func formatDigest(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// backoff returns the wait after a failure that followed others in a row. It is random, so that replicas that lost Redis
// together do not return to it together.
func backoff(failures int) time.Duration {
	longest := min(longestRetry, shortestRetry<<min(failures, 10))
	return longest/2 + rand.N(longest/2) //nolint:gosec // a spread in time is not secret
}
