// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/cmd/kubectl-weir/keys"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/duration"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/offline"
)

const (
	// FieldManager owns the annotation. Tools of GitOps strip what managers named kubectl* set.
	FieldManager = "weir-cli"
	// PublishTimeout bounds how long a command waits for the leader.
	PublishTimeout = 20 * time.Second
	// PublishPoll is how often it asks.
	PublishPoll = 200 * time.Millisecond
)

func newShadowCommand(c *connect.Connection) *cobra.Command {
	m := &modeCommand{Connection: c}
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "shadow POLICY",
		Short: "Let a policy count and report, but deny no request, for some time",
		Long: `Let a policy count and report, but deny no request, for some time.

Sets the annotation ratelimit.weir.dev/shadow-until with your own rights to patch
RateLimitPolicies. The leader ends it; an edit of spec.mode would last, and GitOps would
revert it.`,
		Example: "  kubectl weir shadow login --for 1h -n shop",
		PreRunE: func(*cobra.Command, []string) error {
			if length < time.Second || length > compile.MaxShadow {
				return fmt.Errorf("--for %s: must be 1s to 24h, such as --for 1h", connect.Short(length))
			}
			return nil
		},
	}
	duration.Var(cmd.Flags(), &length, "for", 0, "length, 1s to 24h (required)")
	return m.add(cmd, func() string {
		return time.Now().Add(length).UTC().Format(time.RFC3339)
	})
}

func newEnforceCommand(c *connect.Connection) *cobra.Command {
	m := &modeCommand{Connection: c}
	cmd := &cobra.Command{
		Use:   "enforce POLICY",
		Short: "End what kubectl weir shadow began",
		Long: `End what kubectl weir shadow began.

Removes the annotation ratelimit.weir.dev/shadow-until.`,
		Example: "  kubectl weir enforce login -n shop",
	}
	return m.add(cmd, func() string { return "" })
}

// modeCommand is a command that changes the annotation of a policy.
type modeCommand struct {
	*connect.Connection
	output offline.Output
}

// add adds the command's flags and returns the command, which sets the annotation to the value, or
// removes it if the value is "".
func (m *modeCommand) add(cmd *cobra.Command, value func() string) *cobra.Command {
	m.output.AddFlag(cmd)
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := m.output.Validate(); err != nil {
			return err
		}
		if m.Address != "" {
			return errors.New("--address: the command changes a policy in a cluster")
		}
		id, err := keys.PolicyID(m.Connection, args[0])
		if err != nil {
			return err
		}
		policies, err := policiesOf(m.Connection, id)
		if err != nil {
			return connect.AsFailed(err)
		}
		got, err := policies.shadow(cmd.Context(), cmd.ErrOrStderr(), value())
		if err != nil {
			return connect.AsFailed(fmt.Errorf("%s: %w", id, err))
		}
		return m.output.Write(cmd.OutOrStdout(), got)
	}
	return cmd
}

// policies is a client for one policy of the cluster.
type policies struct {
	resource dynamic.ResourceInterface
	id, name string
}

func policiesOf(c *connect.Connection, id string) (*policies, error) {
	objects, err := c.ObjectsOf("ratelimitpolicies")
	if err != nil {
		return nil, err
	}
	namespace, name := plan.SplitID(id)
	return &policies{resource: objects.Namespace(namespace), id: id, name: name}, nil
}

func (p *policies) get(ctx context.Context) (*v1alpha1.RateLimitPolicy, error) {
	policy := &v1alpha1.RateLimitPolicy{}
	return policy, connect.Get(ctx, p.resource, p.name, policy)
}

// shadow sets the annotation, or removes it if the value is "". It returns when the leader reports
// the new mode as enforced.
func (p *policies) shadow(ctx context.Context, progress io.Writer, value string) (offline.Answer, error) {
	policy, err := p.get(ctx)
	if err != nil {
		return offline.Answer{}, err
	}
	if mode := policy.Spec.Mode; mode != "" && mode != v1alpha1.ModeEnforce {
		return offline.Answer{}, fmt.Errorf("spec.mode is %s, which the annotation does not change; edit the policy", mode)
	}
	text := fmt.Sprintf("%s is in Shadow until %s: it denies no request.", p.id, value)
	var annotation any = value
	if value == "" {
		annotation, text = nil, p.id+" denies requests again."
		if policy.Annotations[v1alpha1.ShadowUntilAnnotation] == "" {
			text = p.id + " was not in Shadow."
		}
	}
	if err := p.annotate(ctx, annotation); err != nil {
		return offline.Answer{}, err
	}
	if err := p.await(ctx, progress, value); err != nil {
		return offline.Answer{}, err
	}
	body, err := json.Marshal(map[string]string{"policy": p.id, "shadowUntil": value})
	return offline.Answer{Body: body, Text: offline.Line(text)}, err
}

func (p *policies) annotate(ctx context.Context, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{v1alpha1.ShadowUntilAnnotation: value},
	}})
	if err != nil {
		return err
	}
	_, err = p.resource.Patch(ctx, p.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

// await waits until the status reports that every replica enforces the annotation.
func (p *policies) await(ctx context.Context, progress io.Writer, value string) error {
	var ready *metav1.Condition
	err := PollLoaded(ctx, progress, "it", PublishPoll, func(ctx context.Context) (bool, error) {
		policy, err := p.get(ctx)
		if err != nil {
			return false, err
		}
		ready = meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady)
		return reportsShadow(policy, value) && meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionEnforced), nil
	})
	if wait.Interrupted(err) {
		reason := "no leader has processed it"
		if ready != nil && ready.Status != metav1.ConditionTrue {
			reason = ready.Message
		}
		return fmt.Errorf("the annotation is changed, but not every replica has loaded it after %s: %s", connect.Short(PublishTimeout), reason)
	}
	return err
}

// PollLoaded polls until the condition holds, for at most PublishTimeout. After a second it prints that it waits until
// every replica has loaded what.
func PollLoaded(
	ctx context.Context, progress io.Writer, what string, interval time.Duration, condition wait.ConditionWithContextFunc,
) error {
	hint := time.After(time.Second)
	return wait.PollUntilContextTimeout(ctx, interval, PublishTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-hint:
			_, _ = fmt.Fprintf(progress, "Waiting until every replica has loaded %s.\n", what)
		default:
		}
		return condition(ctx)
	})
}

// reportsShadow reports whether the summary describes a policy with the annotation.
func reportsShadow(policy *v1alpha1.RateLimitPolicy, value string) bool {
	until, _ := time.Parse(time.RFC3339, value)
	return policy.Status.Summary == compile.Summary(&policy.Spec)+compile.Shadow{Until: until}.Summary()
}
