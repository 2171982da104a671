// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/cmd/kubectl-weir/keys"
	"github.com/weir-dev/weir/cmd/kubectl-weir/policies"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/duration"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/offline"
)

// raiseCommand applies an exception for one key.
type raiseCommand struct {
	*connect.Connection
	output         offline.Output
	limits, bursts []string // NAME=NUMBER
	allow          bool
	length         time.Duration
	reason, name   string
	unblock        bool
}

func newRaiseCommand(c *connect.Connection) *cobra.Command {
	r := &raiseCommand{Connection: c}
	cmd := &cobra.Command{
		Use:   "raise POLICY [KEY...]",
		Short: "Give one key other limits for some time",
		Long: `Give one key other limits for some time, up or down.

Applies a RateLimitException with your own rights, and returns when every replica applies it. It ends by
itself. A second raise of the same key, or of another address of the same network, changes the first
one. The policy bounds exceptions by spec.exceptions.

POLICY is the name of a RateLimitPolicy in the Namespace of -n, or NAMESPACE/NAME. KEY is given once for each
part of the policy's key, in its order. Omit it for a policy without a key, and for the shared budget of
requests without a key.`,
		Example: `  kubectl weir raise shop/api-quota acme --limit burst=2000 --for 4h --reason "launch, ticket 4711"
  kubectl weir raise login user-42 192.0.2.1 --allow --for 30m --unblock -n shop`,
		Args: cobra.MinimumNArgs(1),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&r.limits, "limit", nil, "LIMIT=THRESHOLD of a limit of the policy; may be repeated")
	flags.StringArrayVar(&r.bursts, "burst", nil, "LIMIT=BURST of a limit that uses TokenBucket or GCRA; may be repeated")
	flags.BoolVar(&r.allow, "allow", false, "exempt the key, in place of limits, if spec.exceptions.actions of the policy lists Allow")
	duration.Var(flags, &r.length, "for", 0, "length, 1s to 90d (required)")
	flags.StringVar(&r.reason, "reason", "", "why, for people, such as the number of a ticket")
	flags.StringVar(&r.name, "name", "", "name of the RateLimitException (default: from the policy and the key)")
	flags.BoolVar(&r.unblock, "unblock", false, "also lift a live block of the key, which needs the right to kubectl weir unblock")
	r.output.AddFlag(cmd)
	cmd.RunE = r.run
	return cmd
}

func (r *raiseCommand) run(cmd *cobra.Command, args []string) error {
	if err := r.output.Validate(); err != nil {
		return err
	}
	id, err := policyOrID(r.Connection, args[0])
	if err != nil {
		return err
	}
	exception, err := r.exception(id, args[1:])
	if err != nil {
		return err
	}
	if r.unblock {
		if err := r.Validate(); err != nil {
			return err
		}
	} else if r.Address != "" {
		return errors.New("--address: the command changes a cluster; with --unblock it also calls Weir")
	}
	r.setKey(cmd.Context(), cmd.ErrOrStderr(), exception)
	got, err := r.apply(cmd.Context(), cmd.ErrOrStderr(), exception)
	if err != nil {
		return connect.AsFailed(fmt.Errorf("%s: %w", id, err))
	}
	if r.unblock {
		if err := r.liftBlock(cmd.Context(), id, exception.Spec.Key, &got); err != nil {
			return err
		}
	}
	return r.output.Write(cmd.OutOrStdout(), got)
}

// policyOrID returns the ID of the policy with the name, or with NAMESPACE/NAME.
func policyOrID(c *connect.Connection, name string) (string, error) {
	namespace, rest, hasNamespace := strings.Cut(name, "/")
	if !hasNamespace {
		return keys.PolicyID(c, name)
	}
	if namespace == "" || rest == "" || strings.Contains(rest, "/") {
		return "", fmt.Errorf("POLICY %q: must be NAME or NAMESPACE/NAME", name)
	}
	if given, err := c.Namespace(); *c.Kube.Namespace != "" && (err != nil || given != namespace) {
		return "", fmt.Errorf("POLICY %q: -n %s names another Namespace", name, given)
	}
	return name, nil
}

// exception returns the exception to apply, with the key as given and without a name: setKey sets these.
func (r *raiseCommand) exception(id string, key []string) (*v1alpha1.RateLimitException, error) {
	namespace, policy := plan.SplitID(id)
	e := &v1alpha1.RateLimitException{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "RateLimitException"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
		Spec:       v1alpha1.RateLimitExceptionSpec{Policy: policy, Key: key, Reason: r.reason},
	}
	if r.length < time.Second || r.length > compile.MaxExceptionAhead {
		return nil, fmt.Errorf("--for %s: must be 1s to 90d, such as --for 4h", connect.Short(r.length))
	}
	e.Spec.Until = metav1.NewTime(time.Now().Add(r.length).Truncate(time.Second))
	switch numbers := len(r.limits) + len(r.bursts); {
	case r.allow && numbers > 0:
		return nil, errors.New("--allow: cannot be combined with --limit or --burst")
	case r.allow:
		e.Spec.Action = v1alpha1.ExceptionActionAllow
		return e, nil
	case numbers == 0:
		return nil, errors.New("--limit, --burst, --allow: one is required, such as --limit burst=2000")
	}
	return e, r.setNumbers(&e.Spec)
}

// setKey brings the key to the form in which the policy counts it, so that every address of a network has one exception, and
// sets the name. The key stays as given if the policy cannot be read or is not valid.
func (r *raiseCommand) setKey(ctx context.Context, progress io.Writer, e *v1alpha1.RateLimitException) {
	policy := &v1alpha1.RateLimitPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Spec.Policy}}
	switch isNew, err := policies.IsNew(ctx, r.Connection, "ratelimitpolicies", policy, policy); {
	case err != nil:
		_, _ = fmt.Fprintf(progress, "The policy cannot be read, so an address does not stand for its network here: %v\n", err)
	case !isNew:
		if of, problems := compile.Compile(policy, compile.Everything(), time.Now()); len(problems) == 0 {
			e.Spec.Key = compile.ExceptionKey(e.Spec.Key, of)
		}
	}
	e.Name = cmp.Or(r.name, exceptionName(e.Spec.Policy, e.Spec.Key))
}

// setNumbers sets the numbers of --limit and --burst.
func (r *raiseCommand) setNumbers(spec *v1alpha1.RateLimitExceptionSpec) error {
	set := func(flag, text string, number func(*v1alpha1.ExceptionLimit) **int64) error {
		name, value, ok := strings.Cut(text, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if !ok || name == "" || err != nil || n < 1 {
			return fmt.Errorf("%s %q: must be LIMIT=NUMBER with a number above 0, such as burst=2000", flag, text)
		}
		at := slices.IndexFunc(spec.Limits, func(l v1alpha1.ExceptionLimit) bool { return l.Name == name })
		if at < 0 {
			at = len(spec.Limits)
			spec.Limits = append(spec.Limits, v1alpha1.ExceptionLimit{Name: name})
		}
		*number(&spec.Limits[at]) = &n
		return nil
	}
	var errs []error
	for _, text := range r.limits {
		errs = append(errs, set("--limit", text, func(l *v1alpha1.ExceptionLimit) **int64 { return &l.Threshold }))
	}
	for _, text := range r.bursts {
		errs = append(errs, set("--burst", text, func(l *v1alpha1.ExceptionLimit) **int64 { return &l.Burst }))
	}
	return errors.Join(errs...)
}

// exceptionName returns the default name. The key is hashed, because names allow few characters and are in logs.
func exceptionName(policy string, key []string) string {
	const maxPolicy = 253 - 1 - 10
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q", key)))
	return policy[:min(len(policy), maxPolicy)] + "-" + hex.EncodeToString(sum[:5])
}

// apply applies the exception and returns when every replica applies it.
func (r *raiseCommand) apply(ctx context.Context, progress io.Writer, e *v1alpha1.RateLimitException) (offline.Answer, error) {
	all, err := exceptionsOf(r.Connection, e.Namespace)
	if err != nil {
		return offline.Answer{}, err
	}
	_, kube, err := r.Clients()
	if err != nil {
		return offline.Answer{}, err
	}
	if user := connect.UserOf(ctx, kube); user != "" {
		e.Annotations = map[string]string{v1alpha1.RequestedByAnnotation: user}
	}
	applied, err := all.apply(ctx, e)
	if err != nil {
		return offline.Answer{}, err
	}
	if err := all.await(ctx, progress, applied); err != nil {
		return offline.Answer{}, err
	}
	body, err := json.Marshal(map[string]any{
		"policy": e.Namespace + "/" + e.Spec.Policy, "exception": e.Name, "until": e.Spec.Until.UTC().Format(time.RFC3339),
	})
	text := fmt.Sprintf("%s has %s until %s, by RateLimitException %s.", connect.PartsText(e.Spec.Key), exceptionChange(&e.Spec), e.Spec.Until.UTC().Format(time.RFC3339), e.Name)
	return offline.Answer{Body: body, Text: offline.Line(text)}, err
}

// liftBlock lifts the block of the key through the state API, and adds the outcome to the answer.
func (r *raiseCommand) liftBlock(ctx context.Context, id string, key []string, raised *offline.Answer) error {
	return r.WithClient(ctx, func(ctx context.Context, api *connect.Client) error {
		t := httptypes.Target{Policy: id, Key: key, Shared: len(key) == 0}
		lifted, err := api.Change(ctx, "/v1/unblock", t, "Lifted the block of the key.", "The key was not blocked.")
		if err != nil {
			return fmt.Errorf("the exception is in force, but the block of the key was not lifted: %w", err)
		}
		before := raised.Text
		raised.Text = func(w io.Writer) error {
			return errors.Join(before(w), lifted.Text(w))
		}
		return nil
	})
}
