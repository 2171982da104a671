// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/offline"
	"github.com/weir-dev/weir/internal/validate"
	"github.com/weir-dev/weir/internal/warning"
)

// The exit codes of diff, as of kubectl diff: more than 1 is a failure.
const (
	exitDifferent  = 1
	exitDiffFailed = 3
)

func newDiffCommand(c *connection) *cobra.Command {
	var o output
	var files []string
	cmd := &cobra.Command{
		Use:   "diff -f PATH...",
		Short: "Compare the policies of files with those in force",
		Long: `Compare the policies of files with those in force.

Shows the fields of the compiled policies that differ, which limits keep their counters, and
which of the listed keys (blocked, or denied most often) would be over a limit at once. What
other keys have spent is not known.

Exit codes, as of kubectl diff: 0 no difference, 1 differences, 2 invalid arguments,
3 a failure.`,
		Example: "  kubectl weir diff -f policies/ -n shop\n  kustomize build overlays/prod | kubectl weir diff -f -",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.validate(), c.validate()); err != nil {
				return err
			}
			if len(files) == 0 {
				return errors.New("-f: give a file, a folder, or - for standard input")
			}
			namespace, err := c.namespace()
			if err != nil {
				return err
			}
			policies, err := loadPolicies(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), files, namespace)
			if err != nil {
				return &offline.ExitError{Code: exitDiffFailed, Err: err}
			}
			different := false
			err = c.withClient(cmd.Context(), func(ctx context.Context, api *client) error {
				d, err := api.diff(ctx, cmd.ErrOrStderr(), policies)
				if err != nil {
					return err
				}
				different = d.isDifferent()
				body, err := json.Marshal(d)
				if err != nil {
					return err
				}
				return o.write(cmd.OutOrStdout(), answer{body: body, text: d.write})
			})
			if _, failed := errors.AsType[*failure](err); failed {
				return &offline.ExitError{Code: exitDiffFailed, Err: err}
			}
			if err == nil && different {
				return &offline.ExitError{Code: exitDifferent}
			}
			return err
		},
	}
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "file or folder with policies, or - for standard input")
	o.addFlag(cmd)
	return cmd
}

// loadPolicies returns the compiled policies of the files, in the Namespace unless they set another one. Findings are written to problems.
func loadPolicies(ctx context.Context, stdin io.Reader, problems io.Writer, files []string, namespace string) ([]*plan.Plan, error) {
	sources, err := validate.Load(files, stdin)
	if err != nil {
		return nil, err
	}
	result := validate.Run(ctx, sources, namespace)
	if n := result.Count(validate.SeverityError); n > 0 {
		if err := result.Write(problems, validate.FormatText, offline.HasColor(problems)); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("errors in the policies: %d", n)
	}
	var plans []*plan.Plan
	for _, p := range result.Policies {
		plans = append(plans, p.Plan)
	}
	if len(plans) == 0 {
		return nil, errors.New("-f: no RateLimitPolicy found")
	}
	return plans, nil
}

// differences is the result of diff.
type differences struct {
	Policies []policyDifference `json:"policies"`
}

// policyDifference is how one policy of the files differs from the one in force.
type policyDifference struct {
	Policy string `json:"policy"`
	// New means that no such policy is in force.
	New    bool          `json:"new,omitempty"`
	Fields []fieldChange `json:"fields"`
	Limits []limitChange `json:"limits,omitempty"`
	// Over are the listed keys that would be over a limit at once. KeysNotChecked is why they could not
	// be listed.
	Over           []overKey `json:"over,omitempty"`
	KeysChecked    int       `json:"keysChecked"`
	KeysNotChecked string    `json:"keysNotChecked,omitempty"`
}

// limitChange is what happens to the counters of a limit.
type limitChange struct {
	Limit string `json:"limit"`
	Kept  bool   `json:"kept"`
}

func (d *differences) isDifferent() bool {
	for i := range d.Policies {
		if d.Policies[i].New || len(d.Policies[i].Fields) > 0 {
			return true
		}
	}
	return false
}

// diff compares the policies with those in force.
func (c *client) diff(ctx context.Context, progress io.Writer, policies []*plan.Plan) (*differences, error) {
	d := &differences{Policies: []policyDifference{}}
	for _, is := range policies {
		was, err := c.plan(ctx, is.ID())
		if err != nil {
			return nil, err
		}
		p, err := c.diffPolicy(ctx, progress, was, is)
		if err != nil {
			return nil, err
		}
		d.Policies = append(d.Policies, *p)
	}
	return d, nil
}

// diffPolicy compares a policy with the one in force, nil if none is.
func (c *client) diffPolicy(ctx context.Context, progress io.Writer, was, is *plan.Plan) (*policyDifference, error) {
	p := &policyDifference{Policy: is.ID(), New: was == nil, Fields: []fieldChange{}}
	if was == nil {
		return p, nil
	}
	fields, err := changedFields(was, is)
	if err != nil || len(fields) == 0 {
		return p, err
	}
	p.Fields = fields
	for i := range is.Limits {
		p.Limits = append(p.Limits, limitChange{Limit: is.Limits[i].Name, Kept: warning.KeepsCounters(was, is, i)})
	}
	return p, c.addKeys(ctx, progress, was, is, p)
}

// plan returns the plan in force, nil without one.
func (c *client) plan(ctx context.Context, policy string) (*plan.Plan, error) {
	var raw json.RawMessage
	body, err := c.call(ctx, http.MethodGet, "/v1/plan?"+url.Values{"policy": {policy}}.Encode(), nil, &raw)
	if problem, ok := errors.AsType[*problemError](err); ok && problem.code == "UnknownPolicy" {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, err
	}
	return plan.DecodePlan(body)
}
