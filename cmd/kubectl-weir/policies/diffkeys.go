// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/cmd/kubectl-weir/keys"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/message"
	"github.com/weir-dev/weir/internal/warning"
)

// overKey is a listed key that would be over a limit at once.
type overKey struct {
	Key     []string `json:"key"`
	KeyHash string   `json:"keyHash"`
	Limit   string   `json:"limit"`
	Used    int64    `json:"used"`
	Quota   int64    `json:"quota"`

	text string
}

// addKeys adds the listed keys that would be over a limit at once.
func addKeys(ctx context.Context, c *connect.Client, progress io.Writer, was, is *plan.Plan, p *policyDifference) error {
	listed, err := listedKeys(ctx, c, progress, is.ID())
	if problem, ok := errors.AsType[*connect.ProblemError](err); ok {
		p.KeysNotChecked = problem.Error()
		return nil
	}
	if err != nil {
		return err
	}
	for i := range listed {
		state := &connect.KeyState{}
		query := url.Values{"policy": {is.ID()}, "keyHash": {listed[i].KeyHash}}
		_, err := c.Call(ctx, http.MethodGet, "/v1/state?"+query.Encode(), nil, state)
		if problem, ok := errors.AsType[*connect.ProblemError](err); ok && problem.Code == "UnknownKey" {
			continue // no longer listed
		}
		if err != nil {
			return err
		}
		p.KeysChecked++
		p.Over = append(p.Over, overKeys(was, is, &listed[i], state)...)
	}
	return nil
}

// listedKeys returns the keys that are blocked or denied most often.
func listedKeys(ctx context.Context, c *connect.Client, progress io.Writer, policy string) (listed []httptypes.ListedKey, err error) {
	blocks, top := &keys.BlockList{}, &keys.TopList{}
	scope := url.Values{"policy": {policy}}
	if _, err := c.List(ctx, progress, "/v1/blocks", scope, blocks); err != nil {
		return nil, err
	}
	if _, err := c.List(ctx, progress, "/v1/top", scope, top); err != nil {
		return nil, err
	}
	add := func(key *httptypes.ListedKey) {
		known := slices.ContainsFunc(listed, func(k httptypes.ListedKey) bool { return k.KeyHash == key.KeyHash })
		if key.KeyHash != "" && !known {
			listed = append(listed, *key)
		}
	}
	for i := range blocks.Blocks {
		add(&blocks.Blocks[i].ListedKey)
	}
	for i := range top.Policies {
		for j := range top.Policies[i].Keys {
			add(&top.Policies[i].Keys[j].ListedKey)
		}
	}
	return listed, nil
}

// overKeys returns the limits of the new policy that the key would be over, with the counters that
// the limits keep.
func overKeys(was, is *plan.Plan, key *httptypes.ListedKey, state *connect.KeyState) (over []overKey) {
	limits := is.Limits
	for i := range is.Overrides {
		if is.Overrides[i].Name == state.Override {
			limits = is.LimitsOf(&is.Overrides[i])
		}
	}
	for i := range limits {
		quota := is.Quota(limits[i])
		for j := range state.Limits {
			l := &state.Limits[j]
			if l.Limit == limits[i].Name && l.Used >= quota && warning.KeepsCounters(was, is, i) {
				over = append(over, overKey{Key: key.Key, KeyHash: key.KeyHash, Limit: l.Limit, Used: l.Used, Quota: quota, text: connect.ListedText(key)})
			}
		}
	}
	return over
}

// write writes the differences for people.
func (d *Differences) write(w io.Writer) error {
	var errs []error
	add := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format, args...)
		errs = append(errs, err)
	}
	addObject := func(name string, of *difference, write func(io.Writer) error) {
		switch {
		case of.New:
			add("%s: new\n", name)
		case !of.isDifferent():
			add("%s: no difference\n", name)
		default:
			add("%s:\n", name)
			errs = append(errs, writeFields(w, of.Fields), write(w))
		}
	}
	for i := range d.Policies {
		p := &d.Policies[i]
		addObject(p.Policy, &p.difference, p.write)
	}
	for i := range d.Objects {
		o := &d.Objects[i]
		addObject(o.Object, &o.difference, func(io.Writer) error { return nil })
	}
	for _, what := range d.NotCompared {
		add("%s\n", what)
	}
	return errors.Join(errs...)
}

func writeFields(w io.Writer, fields []fieldChange) error {
	t := connect.NewTable(w)
	for _, f := range fields {
		t.Row("  "+message.Printable(f.Field), shownValue(f.Was)+" -> "+shownValue(f.Is))
	}
	return t.Flush()
}

func (p *policyDifference) write(w io.Writer) error {
	if len(p.Limits) == 0 {
		return nil // no plan is in force
	}
	t := connect.NewTable(w)
	for _, l := range p.Limits {
		counters := "keeps its counters"
		if !l.Kept {
			counters = "starts with empty counters"
		}
		t.Row("  limit "+l.Limit, counters)
	}
	for i := range p.Over {
		k := &p.Over[i]
		t.Row("  key "+k.text, fmt.Sprintf("over limit %s at once: %d used of %d", k.Limit, k.Used, k.Quota))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	note := fmt.Sprintf("  %d listed keys checked, %d over at once; other keys are unknown.", p.KeysChecked, len(p.Over))
	if p.KeysNotChecked != "" {
		note = "  Keys not checked: " + message.Printable(p.KeysNotChecked)
	}
	_, err := fmt.Fprintln(w, note)
	return err
}

// shownValue returns the JSON value for people.
func shownValue(value string) string {
	return cmp.Or(message.Printable(value), "(none)")
}
