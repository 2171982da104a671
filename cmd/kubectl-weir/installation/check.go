// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/duration"
	"github.com/weir-dev/weir/internal/message"
	"github.com/weir-dev/weir/internal/offline"
)

// Commands returns the commands of this package.
func Commands(c *connect.Connection) []*cobra.Command {
	return []*cobra.Command{newCheckCommand(c), newVersionCommand(c), newAccessCommand(c), newConsoleCommand(c)}
}

// checkPoll is the time between two rounds of --wait.
const checkPoll = 2 * time.Second

// outcome is the result of one check of the installation.
type outcome string

const (
	outcomeOK         outcome = "ok"
	outcomeWarning    outcome = "warning"
	outcomeFailed     outcome = "failed"
	outcomeUnderWay   outcome = "under way" // a rollout will most likely end it
	outcomeNotChecked outcome = "not checked"
)

// finding is one line of the report.
type finding struct {
	Check   string  `json:"check"`
	Outcome outcome `json:"outcome"`
	Detail  string  `json:"detail"`
	// Fix is what to do; empty if there is nothing to do.
	Fix string `json:"fix,omitempty"`
}

// report is the result of all checks of the installation.
type report struct {
	Findings []finding `json:"findings"`

	rollout bool // one is under way
}

func (r *report) add(check string, o outcome, detail, fix string) {
	r.Findings = append(r.Findings, finding{check, o, detail, fix})
}

// addPassing adds a failed check that a rollout causes for a moment: as under way if there is one.
func (r *report) addPassing(check, detail, fix string) {
	if r.rollout {
		r.add(check, outcomeUnderWay, detail, untilDone)
		return
	}
	r.add(check, outcomeFailed, detail, fix)
}

// skip adds a check that could not be made.
func (r *report) skip(check string, err error) {
	r.add(check, outcomeNotChecked, err.Error(), "")
}

// err returns the failure of the command, which has waited for the given time.
func (r *report) err(patience time.Duration) error {
	if failed := r.number(outcomeFailed); failed > 0 {
		return connect.AsFailed(fmt.Errorf("checks failed: %d", failed))
	}
	if left := r.number(outcomeUnderWay); left > 0 && patience > 0 {
		return connect.AsFailed(fmt.Errorf("checks still under way after %s: %d", connect.Short(patience), left))
	}
	return nil
}

// number returns the number of checks with the outcome.
func (r *report) number(o outcome) int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].Outcome == o {
			n++
		}
	}
	return n
}

func newCheckCommand(c *connect.Connection) *cobra.Command {
	var o offline.Output
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check the installation: pods, Redis, leader, replicas, webhook, certificates",
		Long: `Check the installation: pods, Redis, leader, replicas, policies and their warnings, budgets,
webhook, client labels and certificates.

Each line has what to do. What you may not see is "not checked". A failed check exits with 1.
Pods that terminate do not count. What a rollout causes for a moment is "under way": it fails
the command only if --wait is over. The command needs no token of Weir.`,
		Example: "  kubectl weir check\n  kubectl weir check --wait 2m --weir-namespace weir-system",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if patience < 0 {
				return fmt.Errorf("--wait %s: must not be negative", connect.Short(patience))
			}
			if err := errors.Join(o.Validate(), c.Validate()); err != nil {
				return err
			}
			r := inspectUntil(cmd.Context(), c, patience, cmd.ErrOrStderr())
			if err := o.WriteValue(cmd.OutOrStdout(), r, r.write); err != nil {
				return err
			}
			return r.err(patience)
		},
	}
	duration.Var(cmd.Flags(), &patience, "wait", 0, "how long to wait until no check fails and no rollout is under way, such as 2m")
	o.AddFlag(cmd)
	return cmd
}

// inspectUntil makes the checks, again and again until none fails or is under way, or the time is over.
func inspectUntil(ctx context.Context, c *connect.Connection, patience time.Duration, progress io.Writer) *report {
	r := inspectAll(ctx, c)
	pending := func() int { return r.number(outcomeFailed) + r.number(outcomeUnderWay) }
	if pending() == 0 || patience == 0 {
		return r
	}
	reason := "a rollout is under way"
	if failed := r.number(outcomeFailed); failed > 0 {
		reason = fmt.Sprintf("%d of the checks failed", failed)
	}
	_, _ = fmt.Fprintf(progress, "Waiting up to %s, because %s.\n", connect.Short(patience), reason)
	_ = wait.PollUntilContextTimeout(ctx, checkPoll, patience, false, func(ctx context.Context) (bool, error) {
		if next := inspectAll(ctx, c); ctx.Err() == nil { // else its checks failed because the time is over
			r = next
		}
		return pending() == 0, nil
	})
	return r
}

// inspectAll makes all checks.
func inspectAll(ctx context.Context, c *connect.Connection) *report {
	r := &report{}
	if c.Address == "" {
		inspectCluster(ctx, c, r)
	}
	err := c.WithoutToken(ctx, func(ctx context.Context, api *connect.Client) error {
		inspectReplica(ctx, api, r)
		return nil
	})
	if err != nil {
		r.addPassing("connection", err.Error(), "make Weir reachable; Redis, leader and replicas were not checked")
	}
	return r
}

// write writes one line for each finding, and what to do below it.
func (r *report) write(w io.Writer) error {
	width := 0
	for i := range r.Findings {
		width = max(width, len(r.Findings[i].Check))
	}
	marks := map[outcome]string{outcomeOK: "ok", outcomeWarning: "WARNING", outcomeFailed: "FAILED", outcomeUnderWay: "UNDER WAY", outcomeNotChecked: "not checked"}
	var out strings.Builder
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(&out, "%-11s  %-*s  %s\n", marks[f.Outcome], width, f.Check, message.Printable(f.Detail))
		if f.Fix != "" {
			fmt.Fprintf(&out, "%-11s  %-*s  -> %s\n", "", width, "", f.Fix)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
