// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"io"
	"strconv"
	"strings"
	"time"

	limits "github.com/weir-dev/weir/internal/limiter/frontend/answer"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// exceptionText describes an exception in force, as in "launch (Limit) until 2026-12-01T06:00:00Z: ticket 4711".
func exceptionText(e *httptypes.Exception) string {
	text := e.Name + " (" + string(e.Action) + ") until " + e.Until.Format(time.RFC3339)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// KeyState is the answer of GET /v1/state.
type KeyState struct{ httptypes.KeyState }

// write writes the state as tables.
func (s *KeyState) write(w io.Writer) error {
	t := NewTable(w)
	t.Row("Policy:", s.Policy)
	if s.Key != nil {
		t.Row("Key:", PartsText(s.Key))
	}
	t.Selected(s.Override, s.Action, s.Group, s.Exception)
	t.Row("Blocked:", BlockText(s.Blocked, s.BlockedBy, s.BlockLeftMs))
	t.Section()
	t.Row("")
	t.Row("LIMIT", "USED", "THRESHOLD", "REMAINING", "RETRY AFTER", "RESET AFTER")
	for i := range s.Limits {
		l := &s.Limits[i]
		t.Row(l.Limit, Number(l.Used), Number(l.Threshold), Number(l.Remaining), RetryAfter(l), Millis(l.ResetAfterMs))
	}
	slices, reservations := make([][]string, len(s.Slices)), make([][]string, len(s.Reservations))
	for i, slice := range s.Slices {
		slices[i] = []string{Number(slice.Units), Millis(slice.EndsInMs)}
	}
	for i, r := range s.Reservations {
		reservations[i] = []string{r.ID, Number(r.Units), Millis(r.EndsInMs)}
	}
	t.holds([]string{"SLICE", "ENDS IN"}, s.OpenSlices, slices)
	t.holds([]string{"RESERVATION", "HELD", "ENDS IN"}, s.OpenReservations, reservations)
	return t.Flush()
}

// Selected adds the override, the group and the exception that select the key, if any.
func (t *Table) Selected(override string, action plan.Action, group string, exception *httptypes.Exception) {
	if override != "" {
		t.Row("Override:", override+" ("+string(action)+")")
	}
	if group != "" {
		t.Row("Group:", group)
	}
	if exception != nil {
		t.Row("Exception:", exceptionText(exception))
	}
}

// holds writes the listed holds of a key, and the number of open ones that are not listed.
func (t *Table) holds(header []string, open int64, listed [][]string) {
	if open == 0 {
		return
	}
	t.Row("")
	t.Section()
	t.Row(header...)
	for _, cells := range listed {
		t.Row(cells...)
	}
	if more := open - int64(len(listed)); more > 0 {
		t.Row(append([]string{Number(more) + " more"}, make([]string, len(header)-1)...)...)
	}
	t.Section()
}

// BlockText describes a block by a limit, or by an operator if by is empty.
func BlockText(blocked bool, by string, leftMs int64) string {
	switch {
	case !blocked:
		return "no"
	case by == "":
		return "for " + Millis(leftMs) + ", by an operator"
	default:
		return "for " + Millis(leftMs) + ", by limit " + by
	}
}

// RetryAfter returns when a check of cost 1 would be admitted.
func RetryAfter(l *limits.LimitState) string {
	switch {
	case l.Allowed:
		return "-"
	case l.RetryAfterMs == 0:
		return "never"
	default:
		return Millis(int64(l.RetryAfterMs))
	}
}

// Number returns the number in decimal digits.
func Number(n int64) string { return strconv.FormatInt(n, 10) }

// Millis formats a time of milliseconds.
func Millis(n int64) string { return Short(time.Duration(n) * time.Millisecond) }

// Short formats a time as policies do: "10m", not "10m0s". Times over a minute have no fractions of a
// second.
func Short(d time.Duration) string {
	if d > time.Minute {
		d = d.Round(time.Second)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
