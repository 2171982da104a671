// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/offline"
	"github.com/weir-dev/weir/internal/validate"
	"github.com/weir-dev/weir/internal/warning"
)

// The exit codes of diff, as of kubectl diff: more than 1 is a failure.
const (
	ExitDifferent  = 1
	ExitDiffFailed = 3
)

func newDiffCommand(c *connect.Connection) *cobra.Command {
	var o offline.Output
	var files []string
	cmd := &cobra.Command{
		Use:   "diff -f PATH...",
		Short: "Compare the objects of files with those in the cluster",
		Long: `Compare the objects of files with those in the cluster.

Shows the fields of the specs of policies, key groups and exceptions that differ. For policies it
also shows which limits keep their counters, and which of the listed keys (blocked, or denied
most often) would be over a limit at once. What other keys have spent is not known.

With --address it reads no cluster. It then compares compiled policies with those in force, without
spec.exceptions, and neither key groups nor exceptions; it names what it has not compared.

Exit codes, as of kubectl diff: 0 no difference, 1 differences, 2 invalid arguments,
3 a failure.`,
		Example: "  kubectl weir diff -f policies/ -n shop\n  kustomize build overlays/prod | kubectl weir diff -f -",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.Validate(), c.Validate()); err != nil {
				return err
			}
			if len(files) == 0 {
				return errors.New("-f: is required: a file, a folder, or - for standard input")
			}
			namespace, err := c.Namespace()
			if err != nil {
				return err
			}
			objects, err := offline.LoadValid(cmd, files, namespace)
			if err == nil && objects.IsEmpty() {
				err = errors.New("-f: no RateLimitPolicy, RateLimitKeyGroup or RateLimitException found")
			}
			if err != nil {
				return &offline.ExitError{Code: ExitDiffFailed, Err: err}
			}
			d, err := diff(cmd.Context(), c, cmd.ErrOrStderr(), objects)
			if _, failed := errors.AsType[*offline.ExitError](err); failed {
				return &offline.ExitError{Code: ExitDiffFailed, Err: err}
			}
			if err != nil {
				return err
			}
			if err := o.WriteValue(cmd.OutOrStdout(), d, d.write); err != nil {
				return err
			}
			if d.IsDifferent() {
				return &offline.ExitError{Code: ExitDifferent}
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVarP(&files, "filename", "f", nil, "file or folder with policies, key groups and exceptions, or - for standard input")
	o.AddFlag(cmd)
	return cmd
}

// Differences is the result of diff.
type Differences struct {
	Policies []policyDifference `json:"policies"`
	Objects  []objectDifference `json:"objects,omitempty"` // other than policies
	// NotCompared names what Weir alone does not know, without a cluster.
	NotCompared []string `json:"notCompared,omitempty"`
}

// difference is what differs in one object.
type difference struct {
	// New means that there is no such object.
	New    bool          `json:"new,omitempty"`
	Fields []fieldChange `json:"fields"`
}

func (d *difference) isDifferent() bool { return d.New || len(d.Fields) > 0 }

// policyDifference is how one policy of the files differs from the one in the cluster.
type policyDifference struct {
	Policy string `json:"policy"`
	difference
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

// IsDifferent reports whether any object is new or has other fields.
func (d *Differences) IsDifferent() bool {
	return slices.ContainsFunc(d.Policies, func(p policyDifference) bool { return p.isDifferent() }) ||
		slices.ContainsFunc(d.Objects, func(o objectDifference) bool { return o.isDifferent() })
}

// diff compares the objects with the cluster, or their plans with those in force at --address. Its errors are failures,
// unless a flag is missing.
func diff(ctx context.Context, c *connect.Connection, progress io.Writer, objects *validate.Result) (*Differences, error) {
	d := &Differences{Policies: []policyDifference{}}
	if c.Address != "" {
		d.skipObjects(objects)
	} else if err := d.addObjects(ctx, c, objects); err != nil {
		return nil, connect.AsFailed(err)
	}
	if len(objects.Policies) == 0 {
		return d, nil
	}
	return d, c.WithClient(ctx, func(ctx context.Context, api *connect.Client) error {
		for _, policy := range objects.Policies {
			p, err := diffPolicy(ctx, c, api, progress, policy)
			if err != nil {
				return err
			}
			d.Policies = append(d.Policies, *p)
		}
		return nil
	})
}

// diffPolicy compares a policy with the one of the cluster, and its plan with the one in force.
func diffPolicy(ctx context.Context, c *connect.Connection, api *connect.Client, progress io.Writer, policy *validate.Policy) (*policyDifference, error) {
	is := policy.Plan
	p := &policyDifference{Policy: is.ID(), difference: difference{Fields: []fieldChange{}}}
	was, err := planOf(ctx, api, is.ID())
	if err != nil {
		return nil, err
	}
	var fields []fieldChange
	if c.Address != "" {
		p.New = was == nil
		fields, err = changedFields(withoutOffsets(was), withoutOffsets(is))
	} else {
		applied := &v1alpha1.RateLimitPolicy{}
		p.New, err = IsNew(ctx, c, "ratelimitpolicies", policy.RateLimitPolicy, applied)
		if err == nil {
			fields, err = changedFields(&applied.Spec, &policy.Spec)
		}
	}
	if err != nil || p.New || len(fields) == 0 {
		return p, err
	}
	p.Fields = fields
	if was == nil {
		return p, nil
	}
	for i := range is.Limits {
		p.Limits = append(p.Limits, limitChange{Limit: is.Limits[i].Name, Kept: warning.KeepsCounters(was, is, i)})
	}
	return p, addKeys(ctx, api, progress, was, is, p)
}

// planOf returns the plan in force, nil without one.
func planOf(ctx context.Context, c *connect.Client, policy string) (*plan.Plan, error) {
	var raw json.RawMessage
	body, err := c.Call(ctx, http.MethodGet, "/v1/plan?"+url.Values{"policy": {policy}}.Encode(), nil, &raw)
	if problem, ok := errors.AsType[*connect.ProblemError](err); ok && problem.Code == "UnknownPolicy" {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, err
	}
	return plan.DecodePlan(body)
}
