// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"

	"github.com/weir-dev/weir/internal/limiter/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// topList is the answer of GET /v1/top.
type topList struct {
	httptypes.TopList

	color bool
}

// write writes the decisions and the keys as two tables.
func (l *topList) write(w io.Writer) error {
	t := newTable(w)
	t.bold = l.color
	t.heading("POLICY", "MODE", "DENIED 1M", "DENIED 5M", "DENIED 1H", "ALLOWED 1H")
	for i := range l.Policies {
		p := &l.Policies[i]
		if p.Decisions != nil {
			t.decisions(p.Policy, p.Mode, p.Decisions)
		}
	}
	t.decisions("(total)", "", &l.Total)
	if err := t.Flush(); err != nil {
		return err
	}
	if err := l.writeCandidates(w); err != nil {
		return err
	}
	if err := l.writeKeys(w); err != nil {
		return err
	}
	since, dropped := "", ""
	if l.Since != nil {
		since = "Decisions are counted since " + l.Since.UTC().Format(time.RFC3339) + "."
	}
	if l.Dropped > 0 {
		dropped = fmt.Sprintf("Denials and blocks that could not be recorded since the start of the replicas: %d.", l.Dropped)
	}
	return writeNotes(w, since, missingNote(l.Missing), dropped, hiddenNote(l.HiddenPolicies))
}

// decisions adds the row of a policy. What mode Shadow would have denied counts as denied.
func (t *table) decisions(policy string, mode plan.Mode, d *httptypes.DecisionSums) {
	denied := func(c httptypes.DecisionCounts) string { return number(c.AllDenied()) }
	if mode == "" {
		mode = "-"
	}
	t.row(visible(policy), visible(string(mode)), denied(d.LastMinute), denied(d.Last5Minutes), denied(d.LastHour), number(d.LastHour.Allowed))
}

// writeCandidates writes a table of the policies whose candidates differ from the limits in force.
func (l *topList) writeCandidates(w io.Writer) error {
	t := newTable(w)
	t.bold = l.color
	for i := range l.Policies {
		p := &l.Policies[i]
		if p.Decisions == nil || p.Decisions.LastHour.CandidateDenied+p.Decisions.LastHour.CandidateAllowed == 0 {
			continue
		}
		if !t.hasHeading {
			t.heading("POLICY", "ONLY CANDIDATE DENIES 1M", "1H", "ONLY CANDIDATE ALLOWS 1M", "1H")
		}
		minute, hour := p.Decisions.LastMinute, p.Decisions.LastHour
		t.row(visible(p.Policy), number(minute.CandidateDenied), number(hour.CandidateDenied),
			number(minute.CandidateAllowed), number(hour.CandidateAllowed))
	}
	if !t.hasHeading {
		return nil
	}
	_, _ = fmt.Fprintln(w) // Flush returns the error
	return t.Flush()
}

func (l *topList) writeKeys(w io.Writer) error {
	t := newTable(w)
	t.bold = l.color
	for i := range l.Policies {
		p := &l.Policies[i]
		for j := range p.Keys[:min(len(p.Keys), shownKeys)] {
			if !t.hasHeading {
				t.heading("POLICY", "KEY", "HASH", "DENIED")
			}
			k := &p.Keys[j]
			t.row(visible(p.Policy), listedText(&k.ListedKey), hashText(k.KeyHash), denied(k.Denials))
		}
	}
	if !t.hasHeading {
		_, err := fmt.Fprintln(w, "\nNo key was denied in the last minutes.")
		return err
	}
	_, _ = fmt.Fprintln(w) // Flush returns the error
	return t.Flush()
}

// denied returns the number of denials, as a range if it is not exact.
func denied(d httptypes.Denials) string {
	if d.Error == 0 {
		return number(d.Count)
	}
	return number(d.Fewest()) + "-" + number(d.Count)
}
