// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// denialInterval is the time between two rounds, and maxDenialEvents the most events in one: five a
	// second.
	denialInterval  = time.Second
	maxDenialEvents = 5
	// denialBatch is the most policies in one round, also such as are gone.
	denialBatch = 500
	// denialPause is the shortest time between two events of one policy.
	denialPause = time.Minute
	// denialsEnd is how long no replica must report denials until they have ended. A replica reports again
	// within 16 seconds, so that a policy has then denied nothing for a minute.
	denialsEnd = 80 * time.Second
)

// denialTracker decides which denials are to be announced, in one term. It measures with the clock of this
// process, because the clock of Redis can go back.
type denialTracker struct {
	records map[plan.Identity]*denialRecord
}

// denialRecord is the state of one policy.
type denialRecord struct {
	reportedAt  time.Time // the last report, in the time of Redis; only compared for equality
	seenAt      time.Time // when that report was read; zero if the policy denies nothing
	announced   bool      // that it denies requests
	announcedAt time.Time // the last event
	changedAt   time.Time // since when it denies requests, or does not
	listed      bool      // in the last reports
}

func (r *denialRecord) denies() bool { return !r.seenAt.IsZero() }

// newDenialTracker returns the tracker of a term that begins now, after others have announced these policies.
//   - Policies that they announced count as reported now.
//   - Reports of others count from the next one on: they may be older than the announcement of their end. The
//     first event of such a policy waits as if its last were now.
func newDenialTracker(now time.Time, announced []plan.Identity, reports []plan.DenialReport) *denialTracker {
	t := &denialTracker{records: map[plan.Identity]*denialRecord{}}
	for _, p := range announced {
		t.records[p] = &denialRecord{seenAt: now, announced: true, announcedAt: now, changedAt: now}
	}
	for _, report := range reports {
		r := t.record(report.Identity)
		r.reportedAt, r.announcedAt = report.At, now
	}
	return t
}

// record returns the record of the policy.
func (t *denialTracker) record(p plan.Identity) *denialRecord {
	r := t.records[p]
	if r == nil {
		r = &denialRecord{}
		t.records[p] = r
	}
	return r
}

// observe records all reports of the last minutes, and which denials have ended.
func (t *denialTracker) observe(now time.Time, reports []plan.DenialReport) {
	for _, r := range t.records {
		r.listed = false
	}
	for _, report := range reports {
		r := t.record(report.Identity)
		r.listed = true
		if r.reportedAt.Equal(report.At) {
			continue
		}
		if !r.denies() {
			r.changedAt = now
		}
		r.reportedAt, r.seenAt = report.At, now
	}
	for p, r := range t.records {
		if r.denies() && now.Sub(r.seenAt) >= denialsEnd {
			r.seenAt, r.changedAt = time.Time{}, now
		}
		if !r.denies() && !r.announced && !r.listed && now.Sub(r.announcedAt) >= denialPause {
			delete(t.records, p)
		}
	}
}

// skip records that the reports could not be read: silence does not count.
func (t *denialTracker) skip(now time.Time) {
	for _, r := range t.records {
		if r.denies() {
			r.seenAt = now
		}
	}
}

// due returns up to most policies to announce, the longest waiting first.
func (t *denialTracker) due(now time.Time, most int) []plan.Identity {
	var due []plan.Identity
	for p, r := range t.records {
		if r.announced != r.denies() && now.Sub(r.announcedAt) >= denialPause {
			due = append(due, p)
		}
	}
	slices.SortFunc(due, func(a, b plan.Identity) int {
		return cmp.Or(t.records[a].changedAt.Compare(t.records[b].changedAt), strings.Compare(a.ID, b.ID))
	})
	return due[:min(len(due), most)]
}

// denies reports whether the policy denies requests.
func (t *denialTracker) denies(p plan.Identity) bool { return t.record(p).denies() }

// announce records an event of the policy.
func (t *denialTracker) announce(p plan.Identity, denies bool, now time.Time) {
	r := t.record(p)
	r.announced, r.announcedAt = denies, now
}
