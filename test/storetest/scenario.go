// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"context"
	"embed"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// TestScenarios runs the scenario files. A scenario file lists checks with the replies that every store must
// give:
//
//	start DATE
//	policy NAME [attempts] [shadow] [reservations] [slices] [blockOnCommit]
//	  limit NAME ALGORITHM THRESHOLD/WINDOW|PERIOD@ZONE [burst N] [bucket DURATION] [block DURATION] [blocks DURATION,.../DURATION] [reached]
//	at TIME [POLICY ...] [key KEY] [cost N] [peek] [draw SHARE] [ACTION] -> allow|deny|blocked|blocks [LIMIT: FACT VALUE ...]
//	at TIME reset|block DURATION|unblock POLICY [key KEY]
//
// where
//   - TIME counts from the start of the file, which is DATE or the next full hour. Every file starts
//     without state.
//   - PERIOD@ZONE is a calendar.
//   - FACT is used, remaining, retryAfter, remainingAfterWaiting, resetAfter, suppression or waits.
//     LIMIT is POLICY/LIMIT, or just LIMIT with one POLICY. Facts of the holds of the key are hold
//     (none, taken, found, missing, full), units (of the hold that was found, or of the slice), held, open, settled
//     and cut.
//   - ACTION is reserve ID for DURATION, commit ID, commit-or-charge ID, renew ID for DURATION,
//     charge ID or slice ID for DURATION. slices are 20 percent.
//   - Without POLICY a check uses the last policy above it.
//   - deny: a limit denied the check. blocked: the key had a live block. blocks: a commit started one.
//   - draw is the caller's random number, 0 (never shed, the default) to just below 1.
func TestScenarios(t *testing.T, subject *Subject) {
	t.Helper()
	files, err := scenarios.ReadDir("testdata")
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		t.Run(strings.TrimSuffix(file.Name(), ".scenario"), func(t *testing.T) {
			steps, start := parseScenario(t, "testdata/"+file.Name())
			runScenario(t, subject, steps, start)
		})
	}
}

//go:embed testdata/*.scenario
var scenarios embed.FS

type step struct {
	line string
	at   time.Duration
	// action is an operator's action; if it is nil, the step makes the call.
	action func(context.Context, Store) error
	call   store.Call
	want   string
	facts  map[string]map[string]string // limit -> fact -> value
}

func runScenario(t *testing.T, subject *Subject, steps []step, start time.Time) {
	t.Helper()
	g := NewWithT(t)
	subject.Clear(t)
	if start.IsZero() {
		start = subject.Clock.Now().Truncate(time.Hour).Add(time.Hour) // buckets start with the hour
	}
	for _, s := range steps {
		subject.Clock.Set(start.Add(s.at))
		if s.action != nil {
			g.Expect(s.action(t.Context(), subject)).To(Succeed(), s.line)
			continue
		}
		reply := subject.MustEvaluate(t, &s.call)
		g.Expect(verdictOf(&s.call, reply)).To(Equal(s.want), s.line)
		for i, e := range s.call.Entries {
			for j, l := range e.Policy.Limits() {
				got := factsOf(l, &reply.Entries[i], &reply.Entries[i].Limits[j])
				for fact, value := range s.facts[limitID(e.Policy, l.Name)] {
					g.Expect(got).To(HaveKeyWithValue(fact, value), s.line)
				}
			}
		}
	}
}

// limitID is POLICY/LIMIT.
func limitID(p *store.Policy, limit string) string {
	return strings.TrimPrefix(p.ID(), "test/") + "/" + limit
}

// verdictOf returns allow, deny or blocked, by the verdicts of the enforcing policies, and blocks for a commit that started a
// block.
func verdictOf(call *store.Call, r *store.Reply) string {
	worst := store.Admitted
	for i, e := range call.Entries {
		if v := r.Entries[i].Verdict; !e.Policy.IsShadow() && v != store.Admitted && worst != store.Blocked {
			worst = v
		}
	}
	if worst == store.BlockStarted && !call.IsDeniable() {
		return "blocks"
	}
	return map[store.Verdict]string{store.Admitted: "allow", store.Denied: "deny", store.BlockStarted: "deny", store.Blocked: "blocked"}[worst]
}

var holdOutcomes = map[store.HoldOutcome]string{
	store.HoldNone: "none", store.HoldTaken: "taken", store.HoldFound: "found", store.HoldMissing: "missing", store.HoldsFull: "full",
}

func factsOf(l store.Limit, e *store.EntryReply, r *store.LimitReply) map[string]string {
	wait := "never"
	if r.RetryAfter != store.Never {
		wait = r.RetryAfter.String()
	}
	return map[string]string{
		"used":                  strconv.FormatInt(r.Used, 10),
		"remaining":             strconv.FormatInt(max(0, l.Quota-r.Used), 10),
		"remainingAfterWaiting": strconv.FormatInt(max(0, l.Quota-r.UsedAfterWaiting), 10),
		"retryAfter":            wait,
		"resetAfter":            r.ResetAfter.String(),
		"suppression":           strconv.FormatFloat(r.Suppression, 'f', 2, 64),
		"waits":                 strconv.FormatBool(r.WaitsForHolds),
		"hold":                  holdOutcomes[e.Hold],
		"units":                 strconv.FormatInt(e.Estimate, 10),
		"held":                  strconv.FormatInt(e.Held, 10),
		"open":                  strconv.FormatInt(e.Open, 10),
		"settled":               strconv.FormatInt(e.Settled, 10),
		"cut":                   strconv.FormatInt(e.DebtCut, 10),
	}
}
