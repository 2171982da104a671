// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

const (
	// MaxExceptionAhead is how far ahead the end of an exception may be.
	MaxExceptionAhead = 90 * 24 * time.Hour
	// aheadTolerance lets the clock of a caller be ahead that uses all of MaxExceptionAhead.
	aheadTolerance = time.Minute

	defaultMaxFactor = 10
)

// Exception returns the record of the exception to the policy, whose plan is given, or every problem that prevents one.
// now bounds the end. Addresses in the key are brought to the network that the policy counts as one client; other keys that
// no request can have stay as they are, since checks may name them. The problems are
//
//   - field.ErrorTypeForbidden for what spec.exceptions of the policy does not accept,
//   - other types for an invalid spec.
func Exception(
	exception *v1alpha1.RateLimitException, policy *v1alpha1.RateLimitPolicy, of *plan.Plan, now time.Time,
) (*plan.Exception, field.ErrorList) {
	spec := &exception.Spec
	at := field.NewPath("spec")
	compiled := newException(exception, policy)
	compiled.Key = ExceptionKey(spec.Key, of)
	var errs field.ErrorList
	if spec.Until.After(now.Add(MaxExceptionAhead + aheadTolerance)) {
		errs = append(errs, field.Invalid(at.Child("until"), spec.Until.UTC().Format(time.RFC3339), "must be at most 90 days ahead"))
	}
	if len(spec.Reason) > plan.MaxReason { // the schema counts characters
		errs = append(errs, field.TooLong(at.Child("reason"), field.OmitValueType{}, plan.MaxReason))
	}
	for i, part := range spec.Key {
		if len(part) > plan.MaxText {
			errs = append(errs, field.TooLong(at.Child("key").Index(i), field.OmitValueType{}, plan.MaxText))
		}
		if i < len(of.Key) && of.Key[i].Trims(part) {
			errs = append(errs, field.Invalid(at.Child("key").Index(i), field.OmitValueType{}, neverApplies))
		}
		if strings.ContainsFunc(part, unicode.IsControl) {
			errs = append(errs, field.Invalid(at.Child("key").Index(i), field.OmitValueType{}, "must not contain control characters"))
		}
	}
	if err := compiled.Validate(); err != nil { // the schema should have rejected it
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, oneLine(err)))
	} else if err := of.CheckException(compiled); err != nil {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, oneLine(err)))
	} else {
		errs = append(errs, checkBounds(at, exception, policy, of)...)
	}
	errs = withUnsupported(errs, spec.Unsupported)
	if len(errs) > 0 {
		return nil, errs
	}
	return compiled, nil
}

// ExceptionOfSize returns a record of about the same size as the record of the exception, without its policy.
func ExceptionOfSize(exception *v1alpha1.RateLimitException) *plan.Exception {
	return newException(exception, &v1alpha1.RateLimitPolicy{})
}

// newException returns the record of the exception with the key as it is.
func newException(exception *v1alpha1.RateLimitException, policy *v1alpha1.RateLimitPolicy) *plan.Exception {
	spec := &exception.Spec
	return &plan.Exception{
		Namespace:   exception.Namespace,
		Name:        exception.Name,
		UID:         string(exception.UID),
		Generation:  exception.Generation,
		Policy:      spec.Policy,
		Key:         spec.Key,
		UntilMillis: spec.Until.UnixMilli(),
		Action:      plan.Action(cmp.Or(spec.Action, v1alpha1.ExceptionActionLimit)),
		Limits:      exceptionLimits(spec.Limits, policy),
		Reason:      spec.Reason,
	}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// ExceptionKey returns the key of the requests that the parts mean, or the parts themselves if no request has them.
func ExceptionKey(parts []string, of *plan.Plan) []string {
	if fitted, err := of.FitKey(parts); err == nil && len(parts) > 0 {
		return fitted
	}
	return parts
}

// exceptionLimits returns the numbers that the exception changes. A default burst follows the threshold, as in an override.
func exceptionLimits(limits []v1alpha1.ExceptionLimit, policy *v1alpha1.RateLimitPolicy) []plan.ExceptionLimit {
	overrides := make([]v1alpha1.LimitOverride, len(limits))
	for i, l := range limits {
		overrides[i] = v1alpha1.LimitOverride{Name: l.Name, Threshold: l.Threshold, Burst: l.Burst}
	}
	var compiled []plan.ExceptionLimit
	for _, o := range (&compiler{}).overriddenLimits(nil, policy.Spec.Limits, overrides) {
		compiled = append(compiled, plan.ExceptionLimit{Name: o.Name, Threshold: o.Threshold, Burst: o.Burst})
	}
	return compiled
}

// checkBounds checks spec.exceptions of the policy.
func checkBounds(at *field.Path, exception *v1alpha1.RateLimitException, policy *v1alpha1.RateLimitPolicy, of *plan.Plan) (errs field.ErrorList) {
	bounds := &policy.Spec.Exceptions
	actions := bounds.Actions
	if actions == nil {
		actions = []v1alpha1.AcceptedAction{v1alpha1.AcceptedActionLimit}
	}
	if action := cmp.Or(exception.Spec.Action, v1alpha1.ExceptionActionLimit); !slices.Contains(actions, v1alpha1.AcceptedAction(action)) {
		return field.ErrorList{field.Forbidden(at.Child("action"), fmt.Sprintf(
			"policy %s does not accept exceptions with action %s: spec.exceptions.actions lists %v", policy.Name, action, actions))}
	}
	factor := int64(ptr.Deref(bounds.MaxFactor, defaultMaxFactor))
	check := func(at *field.Path, number *int64, largest int64, what, limit string) {
		if number != nil && *number > factor*largest {
			errs = append(errs, field.Forbidden(at, fmt.Sprintf("%d is more than %d: policy %s accepts %d times the largest %s of limit %s, which is %d",
				*number, factor*largest, policy.Name, factor, what, limit, largest)))
		}
	}
	for i := range exception.Spec.Limits {
		l, at := &exception.Spec.Limits[i], at.Child("limits").Index(i)
		check(at.Child("threshold"), l.Threshold, of.LargestThreshold(l.Name), "threshold", l.Name)
		check(at.Child("burst"), l.Burst, of.LargestBurst(l.Name), "burst", l.Name)
	}
	return errs
}
