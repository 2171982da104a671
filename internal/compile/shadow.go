// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// MaxShadow is the longest time ahead that ShadowUntilAnnotation may name.
const MaxShadow = 24 * time.Hour

// clockSkew is by how much the clock of a client may be ahead.
const clockSkew = time.Minute

// Shadow is what ShadowUntilAnnotation means for a policy at one time. The zero Shadow is a
// policy in its own mode.
type Shadow struct {
	// Until is when the mode Shadow ends; zero if the policy is in its own mode.
	Until time.Time
	// Problem is why the annotation is not valid.
	Problem *field.Error
	// Next is when the annotation will mean something else; zero is never.
	Next time.Time
}

// ShadowOf reads the annotation. It changes only policies in mode Enforce.
func ShadowOf(policy *v1alpha1.RateLimitPolicy, now time.Time) Shadow {
	value := policy.Annotations[v1alpha1.ShadowUntilAnnotation]
	if value == "" || cmp.Or(policy.Spec.Mode, v1alpha1.ModeEnforce) != v1alpha1.ModeEnforce {
		return Shadow{}
	}
	at := field.NewPath("metadata", "annotations").Key(v1alpha1.ShadowUntilAnnotation)
	until, err := time.Parse(time.RFC3339, value)
	switch {
	case err != nil:
		return Shadow{Problem: field.Invalid(at, value, "must be a time such as 2026-11-22T15:04:05Z (RFC 3339)")}
	case until.After(now.Add(MaxShadow + clockSkew)):
		return Shadow{
			Problem: field.Invalid(at, value, "must be at most 24 hours ahead"),
			Next:    until.Add(-MaxShadow - clockSkew),
		}
	case until.After(now):
		return Shadow{Until: until, Next: until}
	default:
		return Shadow{}
	}
}

// Equal reports whether both mean the same for the policy.
func (s Shadow) Equal(other Shadow) bool {
	return s.Until.Equal(other.Until) && (s.Problem == nil) == (other.Problem == nil) &&
		(s.Problem == nil || s.Problem.Error() == other.Problem.Error())
}

// Apply adds the Problem to the problems of the policy, or changes the mode of its plan.
func (s Shadow) Apply(compiled *plan.Plan, problems field.ErrorList) (*plan.Plan, field.ErrorList) {
	if s.Problem != nil {
		return nil, append(problems, s.Problem)
	}
	if compiled != nil && !s.Until.IsZero() {
		shadowed := *compiled
		shadowed.Mode = plan.ModeShadow
		compiled = &shadowed
	}
	return compiled, problems
}

// Summary returns the addition to a Summary, "" for a policy in its own mode.
func (s Shadow) Summary() string {
	if s.Until.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (Shadow until %s)", s.Until.UTC().Format(time.RFC3339))
}
