// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package unsent

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"

	"github.com/weir-dev/weir/internal/limiter"
)

const (
	// keepFor is how long a charge is kept. It must be shorter than Redis remembers the IDs of
	// charges.
	keepFor = time.Minute
	// maxCharges and MaxBytes bound the kept charges.
	maxCharges = 65_536
	// MaxBytes is the most memory that the kept charges take.
	MaxBytes = 32 << 20
	// fixedBytes is about the size of a charge without its strings.
	fixedBytes = 256
	// sendPeriod is the time between two attempts to send the kept charges.
	sendPeriod = 250 * time.Millisecond
	// senders is the number of charges that are sent at once.
	senders = 16
	// restTimeout bounds the last attempt, when the process stops.
	restTimeout = 2 * time.Second
)

// Values of the label outcome.
const (
	outcomeKept    = "kept"
	outcomeSent    = "sent"
	outcomeDropped = "dropped"
)

// Committer makes charges. The engine implements it.
type Committer interface {
	// Commit is limiter.Reserver.Commit.
	Commit(ctx context.Context, commit *limiter.Commit) (*limiter.Committed, error)
}

// Options configure Charges.
type Options struct {
	// Committer, Registerer and Logger are required.
	Committer  Committer
	Registerer prometheus.Registerer
	Logger     *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Charges are the charges that Redis did not answer. They are safe for concurrent use.
type Charges struct {
	committer   Committer
	now         func() time.Time
	logger      *slog.Logger
	everySecond rate.Sometimes
	outcomes    *prometheus.CounterVec

	mu    sync.Mutex
	kept  []charge
	bytes int // of kept
}

// charge is one charge that is kept.
type charge struct {
	commit *limiter.Commit
	until  time.Time
}

// New returns an empty list of charges.
func New(o Options) *Charges {
	c := &Charges{
		committer: o.Committer, now: o.Now, logger: o.Logger, everySecond: rate.Sometimes{Interval: time.Second},
		outcomes: promauto.With(o.Registerer).NewCounterVec(prometheus.CounterOpts{
			Name: "weir_kept_charges_total",
			Help: "Charges and commits of Envoy that Redis did not answer, by outcome.",
		}, []string{"outcome"}),
	}
	if c.now == nil {
		c.now = time.Now //nolint:forbidigo // the default of the injected clock
	}
	for _, outcome := range []string{outcomeKept, outcomeSent, outcomeDropped} {
		c.outcomes.WithLabelValues(outcome)
	}
	return c
}

// Keep keeps the charges, as far as there is room.
func (c *Charges) Keep(commits []limiter.Commit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := c.now().Add(keepFor)
	for i := range commits {
		c.count(outcomeKept, 1)
		size := sizeOf(&commits[i])
		if len(c.kept) >= maxCharges || c.bytes+size > MaxBytes {
			c.drop("too many charges are kept", 1)
			continue
		}
		c.bytes += size
		c.kept = append(c.kept, charge{commit: clone(&commits[i]), until: until})
	}
}

// Start sends the charges until Redis answers, until ctx ends.
func (c *Charges) Start(ctx context.Context) error {
	ticker := time.NewTicker(sendPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			c.send(ctx)
		}
	}
}

// SendRest sends the kept charges once more, for at most two seconds, and drops the rest. It must be
// called after the last Keep.
func (c *Charges) SendRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, restTimeout)
	defer cancel()
	c.send(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop("the process stops", len(c.kept))
	c.kept, c.bytes = nil, 0
}

// send sends all charges that are kept now. It stops when Redis answers none of the charges that it sends
// at once.
func (c *Charges) send(ctx context.Context) {
	c.dropOld()
	for left := c.length(); left > 0; left -= senders {
		batch := c.take(min(left, senders))
		failed := c.sendBatch(ctx, batch)
		c.putBack(failed)
		if len(failed) == len(batch) {
			return
		}
	}
}

// length returns the number of charges that are kept.
func (c *Charges) length() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.kept)
}

func (c *Charges) dropOld() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, before := c.now(), len(c.kept)
	c.kept = slices.DeleteFunc(c.kept, func(k charge) bool {
		if now.Before(k.until) {
			return false
		}
		c.bytes -= sizeOf(k.commit)
		return true
	})
	c.drop("Redis did not answer for a minute", before-len(c.kept))
}

// take removes the first n charges.
func (c *Charges) take(n int) []charge {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := slices.Clone(c.kept[:n])
	c.kept = slices.Delete(c.kept, 0, n)
	for _, k := range taken {
		c.bytes -= sizeOf(k.commit)
	}
	return taken
}

// putBack keeps the charges again, behind the others: those may be for another node of a cluster.
func (c *Charges) putBack(charges []charge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range charges {
		c.bytes += sizeOf(k.commit)
	}
	c.kept = append(c.kept, charges...)
}

// sendBatch sends the charges at once, and returns those that Redis did not answer.
func (c *Charges) sendBatch(ctx context.Context, batch []charge) (failed []charge) {
	answered := make([]bool, len(batch))
	var wait sync.WaitGroup
	for i := range batch {
		wait.Go(func() { answered[i] = c.commit(ctx, batch[i].commit) })
	}
	wait.Wait()
	for i := range batch {
		if !answered[i] {
			failed = append(failed, batch[i])
		}
	}
	return failed
}

// commit sends one charge and reports whether it need not be sent again.
func (c *Charges) commit(ctx context.Context, commit *limiter.Commit) bool {
	committed, err := c.committer.Commit(ctx, commit)
	switch {
	case errors.Is(err, limiter.ErrStoreUnavailable), err != nil && ctx.Err() != nil:
		return false
	case err != nil: // the key does not fit the policy any more
		c.drop(err.Error(), 1)
	case slices.ContainsFunc(committed.Policies, func(p limiter.CommittedPolicy) bool { return p.Gone }):
		c.drop("the policy was deleted", 1)
	default:
		c.count(outcomeSent, 1)
	}
	return true
}

func (c *Charges) count(outcome string, n int) { c.outcomes.WithLabelValues(outcome).Add(float64(n)) }

// drop counts and logs n dropped charges.
func (c *Charges) drop(cause string, n int) {
	if n == 0 {
		return
	}
	c.count(outcomeDropped, n)
	c.everySecond.Do(func() { c.logger.Error("Dropped charges of Envoy", "cause", cause, "charges", n) })
}

// clone returns a copy that shares no memory with the request of the charge, which can be large.
func clone(commit *limiter.Commit) *limiter.Commit {
	reservation := *commit.Reservation
	reservation.ID = strings.Clone(reservation.ID)
	reservation.Holds = slices.Clone(reservation.Holds)
	for i := range reservation.Holds {
		hold := &reservation.Holds[i]
		hold.Policy, hold.Override = strings.Clone(hold.Policy), strings.Clone(hold.Override)
		hold.Key = slices.Clone(hold.Key)
		for j := range hold.Key {
			hold.Key[j] = strings.Clone(hold.Key[j])
		}
	}
	return &limiter.Commit{
		Reservation: &reservation, Cost: commit.Cost, Costs: maps.Clone(commit.Costs), CostIsFinal: commit.CostIsFinal,
	}
}

// sizeOf returns about how much memory the charge takes.
func sizeOf(commit *limiter.Commit) int {
	size := fixedBytes + len(commit.Reservation.ID)
	for i := range commit.Reservation.Holds {
		hold := &commit.Reservation.Holds[i]
		size += len(hold.Policy) + len(hold.Override)
		for _, part := range hold.Key {
			size += len(part) + len(part)/8 + 16 // what the allocator rounds up, and the string that points to it
		}
	}
	return size
}
