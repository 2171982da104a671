// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package gateways

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/cmd/kubectl-weir/keys"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/message"
)

// targetRow is a Gateway or route, or a part of it, with one policy that names it.
type targetRow struct {
	// Target is empty for a policy that selects requests by matches only.
	Target string `json:"target,omitempty"`
	// Policy is empty if no policy names the target.
	Policy    string     `json:"policy,omitempty"`
	Mode      plan.Mode  `json:"mode,omitempty"`
	LastCheck *time.Time `json:"lastCheck,omitempty"`
	// Exists is whether the cluster has the target; nil if this is unknown.
	Exists *bool `json:"exists,omitempty"`
}

// TargetList is the output of targets.
type TargetList struct {
	Targets        []targetRow `json:"targets"`
	HiddenPolicies int         `json:"hiddenPolicies"`

	now   time.Time
	scope string
}

func newTargetsCommand(c *connect.Connection) *cobra.Command {
	l := &keys.ListCommand{Connection: c}
	cmd := &cobra.Command{
		Use:   "targets",
		Short: "List Gateways and routes, the policies that name them, and when a check last applied",
		Long: `List Gateways and routes, the policies that name them, and when a check last applied.

Replicas report at most once a minute that a check applied to a policy, and through which of its
targets. Without a report in 24 hours the last check is "never". kubectl weir probe finds out at once
whether a URL reaches a target. Gateways and routes are read with your own rights; with --address they are not.`,
		Example: `  kubectl weir targets -n shop
  kubectl weir targets -A -o json`,
	}
	return l.Add(cmd, func(cmd *cobra.Command, ctx context.Context, api *connect.Client, scope url.Values) error {
		answered := &httptypes.TargetList{}
		if _, err := api.List(ctx, cmd.ErrOrStderr(), "/v1/targets", scope, answered); err != nil {
			return err
		}
		list := &TargetList{Targets: rowsOf(answered), HiddenPolicies: answered.HiddenPolicies, now: time.Now(), scope: keys.ScopeText(scope)}
		if c.Address == "" {
			existing, err := existingTargets(ctx, c, l.All)
			if err != nil {
				_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "note: Gateways and routes of the cluster are not listed:", err)
			} else {
				list.compare(existing, scope.Get("policy") == "")
			}
		}
		list.sort()
		return l.Output.WriteValue(cmd.OutOrStdout(), list, list.write)
	})
}

// rowsOf returns a row for each policy and target.
func rowsOf(list *httptypes.TargetList) (rows []targetRow) {
	for i := range list.Policies {
		p := &list.Policies[i]
		if len(p.Targets) == 0 {
			rows = append(rows, targetRow{Policy: p.Policy, Mode: p.Mode, LastCheck: p.LastCheck})
		}
		for _, t := range p.Targets {
			rows = append(rows, targetRow{Target: t.Target, Policy: p.Policy, Mode: p.Mode, LastCheck: t.LastCheck})
		}
	}
	return rows
}

// existingTargets returns the Gateways and routes of the Namespace, or of all Namespaces, and their named sections.
func existingTargets(ctx context.Context, c *connect.Connection, all bool) ([]string, error) {
	namespace, err := c.Namespace()
	if err != nil {
		return nil, err
	}
	if all {
		namespace = ""
	}
	kube, err := c.Objects()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connect.CallTimeout)
	defer cancel()
	var existing []string
	for _, kind := range []string{plan.TargetGateway, plan.TargetHTTPRoute, plan.TargetGRPCRoute} {
		list, err := kube.Resource(resources[kind]).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if kind == plan.TargetGRPCRoute && apierrors.IsNotFound(err) {
			continue
		}
		if apierrors.IsNotFound(err) {
			return nil, errors.New("this cluster does not serve " + kind + " (" + gatewayVersion.String() + ")")
		}
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			existing = append(existing, withSections(&list.Items[i])...)
		}
	}
	return existing, nil
}

// withSections returns the object and its named sections as targets, the object first.
func withSections(object *unstructured.Unstructured) []string {
	name := object.GetKind() + "/" + object.GetNamespace() + "/" + object.GetName()
	targets := []string{name}
	field := "rules"
	if object.GetKind() == plan.TargetGateway {
		field = "listeners"
	}
	sections, _, _ := unstructured.NestedSlice(object.Object, "spec", field) // the schema has a list
	for _, section := range sections {
		fields, _ := section.(map[string]any)
		if text, _ := fields["name"].(string); text != "" {
			targets = append(targets, name+"/"+text)
		}
	}
	return targets
}

// compare sets which targets exist and, with others, adds the existing ones that no policy names.
func (l *TargetList) compare(existing []string, others bool) {
	for i := range l.Targets {
		if t := &l.Targets[i]; t.Target != "" {
			t.Exists = new(slices.Contains(existing, t.Target))
		}
	}
	if !others {
		return
	}
	for _, target := range existing {
		isNamed := func(t targetRow) bool { return t.Target != "" && string(plan.Target(t.Target).Whole()) == target }
		if strings.Count(target, "/") == 2 && !slices.ContainsFunc(l.Targets, isNamed) {
			l.Targets = append(l.Targets, targetRow{Target: target, Exists: new(true)})
		}
	}
}

// sort sorts by target, then by policy; policies without targets are last.
func (l *TargetList) sort() {
	slices.SortStableFunc(l.Targets, func(a, b targetRow) int {
		if (a.Target == "") != (b.Target == "") {
			return cmp.Compare(b.Target, a.Target)
		}
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Policy, b.Policy))
	})
}

// write writes the rows as a table.
func (l *TargetList) write(w io.Writer) error {
	if len(l.Targets) == 0 {
		_, _ = fmt.Fprintf(w, "No policy selects requests, and there are no Gateways and routes, %s.\n", l.scope) // writeNotes returns the error
		return keys.WriteNotes(w, keys.HiddenNote(l.HiddenPolicies))
	}
	t := connect.NewTable(w)
	t.Heading("TARGET", "POLICY", "MODE", "LAST CHECK", "NOTE")
	for i := range l.Targets {
		row := &l.Targets[i]
		note := ""
		switch {
		case row.Exists != nil && !*row.Exists:
			note = "not in the cluster"
		case row.Policy == "":
			note = "no policy names it"
		}
		t.Row(message.Printable(cmp.Or(row.Target, "(by matches)")), message.Printable(cmp.Or(row.Policy, "-")), cmp.Or(string(row.Mode), "-"), l.lastCheck(row), note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return keys.WriteNotes(w, keys.HiddenNote(l.HiddenPolicies))
}

// lastCheck returns how long ago the last check was. Reports are a minute apart.
func (l *TargetList) lastCheck(row *targetRow) string {
	switch {
	case row.Policy == "":
		return "-"
	case row.LastCheck == nil:
		return "never"
	}
	ago := l.now.Sub(*row.LastCheck)
	if ago < 2*time.Minute {
		return "under 2m ago"
	}
	return connect.Short(ago.Truncate(time.Minute)) + " ago"
}
