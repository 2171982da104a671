// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/message"
)

// TopList is the answer of GET /v1/top.
type TopList struct {
	httptypes.TopList
}

// write writes the decisions and the keys as two tables.
func (l *TopList) write(w io.Writer) error {
	t := connect.NewTable(w)
	t.Heading("POLICY", "MODE", "DENIED 1M", "DENIED 5M", "DENIED 1H", "ALLOWED 1H")
	for i := range l.Policies {
		p := &l.Policies[i]
		if p.Decisions != nil {
			decisions(t, p.Policy, p.Mode, p.Decisions)
		}
	}
	decisions(t, "(total)", "", &l.Total)
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
	return WriteNotes(w, since, missingNote(l.Missing), dropped, HiddenNote(l.HiddenPolicies))
}

// decisions adds the row of a policy. What mode Shadow would have denied counts as denied.
func decisions(t *connect.Table, policy string, mode plan.Mode, d *httptypes.DecisionSums) {
	denied := func(c httptypes.DecisionCounts) string { return connect.Number(c.AllDenied()) }
	t.Row(message.Printable(policy), cmp.Or(message.Printable(string(mode)), "-"), denied(d.LastMinute), denied(d.Last5Minutes), denied(d.LastHour), connect.Number(d.LastHour.Allowed))
}

// writeCandidates writes a table of the policies whose candidates differ from the limits in force.
func (l *TopList) writeCandidates(w io.Writer) error {
	t := connect.NewTable(w)
	for i := range l.Policies {
		p := &l.Policies[i]
		if p.Decisions == nil || p.Decisions.LastHour.CandidateDenied+p.Decisions.LastHour.CandidateAllowed == 0 {
			continue
		}
		if !t.HasHeading {
			t.Heading("POLICY", "ONLY CANDIDATE DENIES 1M", "1H", "ONLY CANDIDATE ALLOWS 1M", "1H")
		}
		minute, hour := p.Decisions.LastMinute, p.Decisions.LastHour
		t.Row(message.Printable(p.Policy), connect.Number(minute.CandidateDenied), connect.Number(hour.CandidateDenied),
			connect.Number(minute.CandidateAllowed), connect.Number(hour.CandidateAllowed))
	}
	if !t.HasHeading {
		return nil
	}
	_, _ = fmt.Fprintln(w) // Flush returns the error
	return t.Flush()
}

func (l *TopList) writeKeys(w io.Writer) error {
	t := connect.NewTable(w)
	for i := range l.Policies {
		p := &l.Policies[i]
		for j := range p.Keys[:min(len(p.Keys), shownKeys)] {
			if !t.HasHeading {
				t.Heading("POLICY", "KEY", "HASH", "DENIED")
			}
			k := &p.Keys[j]
			t.Row(message.Printable(p.Policy), connect.ListedText(&k.ListedKey), connect.HashText(k.KeyHash), denied(k.Denials))
		}
	}
	if !t.HasHeading {
		_, err := fmt.Fprintln(w, "\nNo key was denied in the last minutes.")
		return err
	}
	_, _ = fmt.Fprintln(w) // Flush returns the error
	return t.Flush()
}

// denied returns the number of denials, as a range if it is not exact.
func denied(d httptypes.Denials) string {
	if d.Error == 0 {
		return connect.Number(d.Count)
	}
	return connect.Number(d.Fewest()) + "-" + connect.Number(d.Count)
}
