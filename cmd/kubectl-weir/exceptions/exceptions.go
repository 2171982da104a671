// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/cmd/kubectl-weir/policies"
	"github.com/weir-dev/weir/internal/message"
	"github.com/weir-dev/weir/internal/offline"
)

// Commands returns the commands of this package.
func Commands(c *connect.Connection) []*cobra.Command {
	return []*cobra.Command{newRaiseCommand(c), newExceptionsCommand(c)}
}

// exceptionsCommand lists or deletes exceptions.
type exceptionsCommand struct {
	*connect.Connection
	output offline.Output
	all    bool // of all Namespaces
	dryRun bool
}

func newExceptionsCommand(c *connect.Connection) *cobra.Command {
	l := &exceptionsCommand{Connection: c}
	cmd := &cobra.Command{
		Use:   "exceptions [POLICY]",
		Short: "List the exceptions of keys, those that end first at the top",
		Example: `  kubectl weir exceptions -n shop
  kubectl weir exceptions prune -A --dry-run`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return l.on(cmd, func(ctx context.Context, all *exceptions) (offline.Answer, error) {
				return all.list(ctx, slices.Concat(args, []string{""})[0])
			})
		},
	}
	l.addFlags(cmd)
	p := &exceptionsCommand{Connection: c}
	prune := &cobra.Command{
		Use:   "prune",
		Short: "Delete the exceptions that have ended",
		Long: `Delete the exceptions that have ended.

Weir deletes no exception: a GitOps tool would bring it back forever. The command deletes those whose status
reports that they have ended. Delete those in Git there.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.on(cmd, func(ctx context.Context, all *exceptions) (offline.Answer, error) { return all.prune(ctx, p.dryRun) })
		},
	}
	p.addFlags(prune)
	prune.Flags().BoolVar(&p.dryRun, "dry-run", false, "only print what would be deleted")
	cmd.AddCommand(prune)
	return cmd
}

func (l *exceptionsCommand) addFlags(cmd *cobra.Command) {
	l.output.AddFlag(cmd)
	cmd.Flags().BoolVarP(&l.all, "all-namespaces", "A", false, "all Namespaces")
}

// on runs do with the exceptions of the Namespace, or of all.
func (l *exceptionsCommand) on(cmd *cobra.Command, do func(context.Context, *exceptions) (offline.Answer, error)) error {
	if err := l.output.Validate(); err != nil {
		return err
	}
	if l.Address != "" {
		return errors.New("--address: the command reads exceptions in a cluster")
	}
	namespace, err := l.Namespace()
	if err != nil {
		return err
	}
	if l.all {
		namespace = ""
	}
	all, err := exceptionsOf(l.Connection, namespace)
	if err != nil {
		return connect.AsFailed(err)
	}
	got, err := do(cmd.Context(), all)
	if err != nil {
		return connect.AsFailed(err)
	}
	return l.output.Write(cmd.OutOrStdout(), got)
}

// exceptions is a client for the exceptions of a Namespace, or of all.
type exceptions struct {
	client    dynamic.NamespaceableResourceInterface
	namespace string // "" for all
}

func exceptionsOf(c *connect.Connection, namespace string) (*exceptions, error) {
	objects, err := c.ObjectsOf("ratelimitexceptions")
	if err != nil {
		return nil, err
	}
	return &exceptions{client: objects, namespace: namespace}, nil
}

// get returns all of them, those that end first at the top.
func (x *exceptions) get(ctx context.Context) ([]v1alpha1.RateLimitException, error) {
	objects, err := x.client.Namespace(x.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	list := v1alpha1.RateLimitExceptionList{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects.UnstructuredContent(), &list); err != nil {
		return nil, err
	}
	slices.SortStableFunc(list.Items, func(a, b v1alpha1.RateLimitException) int {
		return cmp.Or(a.Spec.Until.Compare(b.Spec.Until.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list.Items, nil
}

// apply applies the exception by server-side apply and returns the object.
func (x *exceptions) apply(ctx context.Context, e *v1alpha1.RateLimitException) (*v1alpha1.RateLimitException, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(e)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(content, "status")
	object, err := x.client.Namespace(e.Namespace).Apply(ctx, e.Name, &unstructured.Unstructured{Object: content},
		metav1.ApplyOptions{FieldManager: policies.FieldManager, Force: true})
	if err != nil {
		return nil, err
	}
	applied := &v1alpha1.RateLimitException{}
	return applied, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, applied)
}

// await waits until the status reports that every replica applies the generation of the exception.
func (x *exceptions) await(ctx context.Context, progress io.Writer, applied *v1alpha1.RateLimitException) error {
	var ready, stalled *metav1.Condition
	err := policies.PollLoaded(ctx, progress, "it", policies.PublishPoll, func(ctx context.Context) (bool, error) {
		now := &v1alpha1.RateLimitException{}
		if err := connect.Get(ctx, x.client.Namespace(applied.Namespace), applied.Name, now); err != nil {
			return false, err
		}
		ready, stalled = nil, nil
		if now.Status.ObservedGeneration >= applied.Generation {
			ready = meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady)
			stalled = meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionStalled)
		}
		return stalled != nil || ready != nil && ready.Status == metav1.ConditionTrue, nil
	})
	switch {
	case wait.Interrupted(err) && ready != nil:
		return fmt.Errorf("RateLimitException %s is applied, but not in force after %s: %s", applied.Name, connect.Short(policies.PublishTimeout), ready.Message)
	case wait.Interrupted(err):
		return fmt.Errorf("RateLimitException %s is applied, but no leader has processed it after %s", applied.Name, connect.Short(policies.PublishTimeout))
	case err == nil && stalled != nil:
		return fmt.Errorf("RateLimitException %s is not accepted: %s: %s", applied.Name, stalled.Reason, stalled.Message)
	}
	return err
}

// list returns the exceptions of the policy with the name, or all for "".
func (x *exceptions) list(ctx context.Context, policy string) (offline.Answer, error) {
	all, err := x.get(ctx)
	if err != nil {
		return offline.Answer{}, err
	}
	if policy != "" {
		all = slices.DeleteFunc(all, func(e v1alpha1.RateLimitException) bool { return e.Spec.Policy != policy })
	}
	return exceptionsAnswer(all, "No exceptions.", func(w io.Writer) error {
		t := connect.NewTable(w)
		t.Heading("NAMESPACE", "NAME", "POLICY", "KEY", "CHANGE", "UNTIL", "STATE", "REQUESTED BY", "REASON")
		for i := range all {
			e := &all[i]
			t.Row(e.Namespace, e.Name, e.Spec.Policy, connect.PartsText(e.Spec.Key), exceptionChange(&e.Spec), e.Spec.Until.UTC().Format(time.RFC3339), stateOf(e),
				message.Printable(e.Annotations[v1alpha1.RequestedByAnnotation]), message.Printable(e.Spec.Reason))
		}
		return t.Flush()
	})
}

// exceptionsAnswer returns the answer with the exceptions; none is the text for an empty list.
func exceptionsAnswer(all []v1alpha1.RateLimitException, none string, text func(io.Writer) error) (offline.Answer, error) {
	all = append([]v1alpha1.RateLimitException{}, all...) // an empty list, not null
	for i := range all {
		all[i].ManagedFields = nil
	}
	body, err := json.Marshal(map[string]any{"exceptions": all})
	if len(all) == 0 {
		text = offline.Line(none)
	}
	return offline.Answer{Body: body, Text: text}, err
}

// prune deletes the exceptions that have ended. One that is changed meanwhile stays.
func (x *exceptions) prune(ctx context.Context, dryRun bool) (offline.Answer, error) {
	all, err := x.get(ctx)
	if err != nil {
		return offline.Answer{}, err
	}
	ended := slices.DeleteFunc(all, func(e v1alpha1.RateLimitException) bool { return !hasEnded(&e) })
	verb := "Deleted"
	options := metav1.DeleteOptions{}
	if dryRun {
		verb, options.DryRun = "Would delete", []string{metav1.DryRunAll}
	}
	var gone []v1alpha1.RateLimitException
	for i := range ended {
		e := &ended[i]
		options.Preconditions = &metav1.Preconditions{UID: &e.UID, ResourceVersion: &e.ResourceVersion}
		err := x.client.Namespace(e.Namespace).Delete(ctx, e.Name, options)
		switch {
		case err == nil:
			gone = append(gone, *e)
		case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			return offline.Answer{}, fmt.Errorf("%s/%s: %w", e.Namespace, e.Name, err)
		}
	}
	return exceptionsAnswer(gone, "No exception has ended.", func(w io.Writer) error {
		for i := range gone {
			if _, err := fmt.Fprintf(w, "%s %s/%s, which ended at %s.\n", verb, gone[i].Namespace, gone[i].Name, gone[i].Spec.Until.UTC().Format(time.RFC3339)); err != nil {
				return err
			}
		}
		return nil
	})
}

// hasEnded reports whether the status of this generation reports that the exception has ended.
func hasEnded(e *v1alpha1.RateLimitException) bool {
	active := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionActive)
	return active != nil && active.Status == metav1.ConditionFalse && active.ObservedGeneration == e.Generation
}

// stateOf describes whether the exception is in force and, if not, why.
func stateOf(e *v1alpha1.RateLimitException) string {
	ready := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionReady)
	accepted := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionAccepted)
	switch {
	case hasEnded(e):
		return "ended"
	case ready == nil || ready.ObservedGeneration != e.Generation:
		return "not processed"
	case ready.Status == metav1.ConditionTrue:
		return "in force"
	case accepted != nil && accepted.Status != metav1.ConditionTrue:
		return accepted.Reason
	default:
		return ready.Reason
	}
}

// exceptionChange describes what the exception changes, as in "burst threshold 2000".
func exceptionChange(spec *v1alpha1.RateLimitExceptionSpec) string {
	if spec.Action == v1alpha1.ExceptionActionAllow {
		return "no limits"
	}
	var changes []string
	for i := range spec.Limits {
		l := &spec.Limits[i]
		text := l.Name
		if l.Threshold != nil {
			text += " threshold " + connect.Number(*l.Threshold)
		}
		if l.Burst != nil {
			text += " burst " + connect.Number(*l.Burst)
		}
		changes = append(changes, text)
	}
	return strings.Join(changes, ", ")
}
