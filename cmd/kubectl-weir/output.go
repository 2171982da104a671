// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	limits "github.com/weir-dev/weir/internal/limiter/answer"
	"github.com/weir-dev/weir/internal/limiter/httptypes"
)

// output is the format that -o selects: "" for people, json or yaml for programs.
type output string

func (o *output) addFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP((*string)(o), "output", "o", "", "format for programs: json or yaml (default: text for people)")
}

func (o *output) validate() error {
	switch *o {
	case "", "json", "yaml":
		return nil
	}
	return fmt.Errorf("-o %q: must be json or yaml", *o)
}

// answer is an answer of Weir.
type answer struct {
	// body is the answer as JSON.
	body []byte
	// text writes it for people.
	text func(w io.Writer) error
}

// write writes the answer in the format.
func (o *output) write(w io.Writer, a answer) error {
	switch *o {
	case "json":
		var out bytes.Buffer
		if err := json.Indent(&out, bytes.TrimSpace(a.body), "", "  "); err != nil {
			return err
		}
		_, err := fmt.Fprintln(w, out.String())
		return err
	case "yaml":
		out, err := yaml.JSONToYAML(a.body)
		if err != nil {
			return err
		}
		_, err = w.Write(out)
		return err
	}
	return a.text(w)
}

// writeValue writes the value for programs, or its text.
func (o *output) writeValue(w io.Writer, value any, text func(io.Writer) error) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return o.write(w, answer{body: body, text: text})
}

// line returns what writes one line.
func line(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintln(w, text)
		return err
	}
}

// exceptionText describes an exception in force, as in "launch (Limit) until 2026-12-01T06:00:00Z: ticket 4711".
func exceptionText(e *httptypes.Exception) string {
	text := e.Name + " (" + string(e.Action) + ") until " + e.Until.Format(time.RFC3339)
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// keyState is the answer of GET /v1/state.
type keyState struct{ httptypes.KeyState }

// write writes the state as tables.
func (s *keyState) write(w io.Writer) error {
	t := newTable(w)
	t.row("Policy:", s.Policy)
	if s.Key != nil {
		t.row("Key:", partsText(s.Key))
	}
	if s.Override != "" {
		t.row("Override:", s.Override+" ("+string(s.Action)+")")
	}
	if s.Group != "" {
		t.row("Group:", s.Group)
	}
	if s.Exception != nil {
		t.row("Exception:", exceptionText(s.Exception))
	}
	t.row("Blocked:", blockText(s.Blocked, s.BlockedBy, s.BlockLeftMs))
	t.section()
	t.row("")
	t.row("LIMIT", "USED", "THRESHOLD", "REMAINING", "RETRY AFTER", "RESET AFTER")
	for i := range s.Limits {
		l := &s.Limits[i]
		t.row(l.Limit, number(l.Used), number(l.Threshold), number(l.Remaining), retryAfter(l), millis(l.ResetAfterMs))
	}
	slices, reservations := make([][]string, len(s.Slices)), make([][]string, len(s.Reservations))
	for i, slice := range s.Slices {
		slices[i] = []string{number(slice.Units), millis(slice.EndsInMs)}
	}
	for i, r := range s.Reservations {
		reservations[i] = []string{r.ID, number(r.Units), millis(r.EndsInMs)}
	}
	t.holds([]string{"SLICE", "ENDS IN"}, s.OpenSlices, slices)
	t.holds([]string{"RESERVATION", "HELD", "ENDS IN"}, s.OpenReservations, reservations)
	return t.Flush()
}

// holds writes the listed holds of a key, and the number of open ones that are not listed.
func (t *table) holds(header []string, open int64, listed [][]string) {
	if open == 0 {
		return
	}
	t.row("")
	t.section()
	t.row(header...)
	for _, cells := range listed {
		t.row(cells...)
	}
	if more := open - int64(len(listed)); more > 0 {
		t.row(append([]string{number(more) + " more"}, make([]string, len(header)-1)...)...)
	}
	t.section()
}

// blockText describes a block by a limit, or by an operator if by is empty.
func blockText(blocked bool, by string, leftMs int64) string {
	switch {
	case !blocked:
		return "no"
	case by == "":
		return "for " + millis(leftMs) + ", by an operator"
	default:
		return "for " + millis(leftMs) + ", by limit " + by
	}
}

// retryAfter returns when a check of cost 1 would be admitted.
func retryAfter(l *limits.LimitState) string {
	switch {
	case l.Allowed:
		return "-"
	case l.RetryAfterMs == 0:
		return "never"
	default:
		return millis(int64(l.RetryAfterMs))
	}
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// millis formats a time of milliseconds.
func millis(n int64) string { return short(time.Duration(n) * time.Millisecond) }

// short formats a time as policies do: "10m", not "10m0s". Times over a minute have no fractions of a
// second.
func short(d time.Duration) string {
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
