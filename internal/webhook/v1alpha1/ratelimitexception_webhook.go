// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// +kubebuilder:webhook:path=/validate-ratelimit-weir-dev-v1alpha1-ratelimitexception,mutating=false,failurePolicy=ignore,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=ratelimit.weir.dev,resources=ratelimitexceptions,verbs=create;update,versions=v1alpha1,name=ratelimitexceptions.ratelimit.weir.dev,serviceName=weir-webhook,serviceNamespace=weir-system,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"}]}`

// ExceptionPath is the HTTP path of the webhook of exceptions.
const ExceptionPath = "/validate-ratelimit-weir-dev-v1alpha1-ratelimitexception"

// exceptionValidator validates exceptions that are created or updated.
type exceptionValidator struct{ *Validator }

var _ admission.Validator[*v1alpha1.RateLimitException] = (*exceptionValidator)(nil)

// ValidateCreate rejects an exception that the controller would not accept, and a name in RequestedByAnnotation that is
// neither the caller's nor the name of a user that the caller may impersonate. It accepts an exception to a policy that does
// not exist yet.
func (v *exceptionValidator) ValidateCreate(ctx context.Context, e *v1alpha1.RateLimitException) (admission.Warnings, error) {
	return v.validate(ctx, e, v.requestedByProblems(ctx, e))
}

// ValidateUpdate rejects a spec that the controller would not accept. If the name in RequestedByAnnotation is new or changes,
// or if the spec changes otherwise than by an earlier end or lower numbers, it rejects the same names as ValidateCreate. Any
// other update of the metadata passes.
func (v *exceptionValidator) ValidateUpdate(ctx context.Context, was, e *v1alpha1.RateLimitException) (admission.Warnings, error) {
	if !e.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	var problems field.ErrorList
	sameName := was.Annotations[v1alpha1.RequestedByAnnotation] == e.Annotations[v1alpha1.RequestedByAnnotation]
	if !sameName || !onlyLowers(&was.Spec, &e.Spec) {
		problems = v.requestedByProblems(ctx, e)
	}
	if equality.Semantic.DeepEqual(was.Spec, e.Spec) {
		return nil, invalid("RateLimitException", e.Name, problems)
	}
	return v.validate(ctx, e, problems)
}

// ValidateDelete accepts every deletion. The webhook is not configured for them.
func (*exceptionValidator) ValidateDelete(context.Context, *v1alpha1.RateLimitException) (admission.Warnings, error) {
	return nil, nil
}

func (v *exceptionValidator) validate(
	ctx context.Context, e *v1alpha1.RateLimitException, problems field.ErrorList,
) (warnings admission.Warnings, err error) {
	defer func() { v.Reviews.count(warnings, err) }()
	now := time.Now() //nolint:forbidigo // an end is at most 90 days ahead
	policy, of, warnings := v.policyOf(ctx, e)
	if of == nil {
		return truncated(warnings), invalid("RateLimitException", e.Name, problems)
	}
	compiled, found := compile.Exception(e, policy, of, now)
	if err := invalid("RateLimitException", e.Name, append(problems, found...)); err != nil {
		return nil, err
	}
	all := &v1alpha1.RateLimitExceptionList{}
	if v.Sizes == nil || !v.list(ctx, e.Namespace, all) {
		return nil, nil
	}
	warnings, _ = v.Exceptions.Warnings(compiled, policy, of, now)
	return truncated(append(warnings, v.budgetWarnings(e, all.Items, now)...)), nil
}

// policyOf returns the policy that the exception names, with its plan. It reads from the API server, since the policy may
// have been applied just before. Without a plan there is a warning.
func (v *exceptionValidator) policyOf(ctx context.Context, e *v1alpha1.RateLimitException) (*v1alpha1.RateLimitPolicy, *plan.Plan, admission.Warnings) {
	policy := &v1alpha1.RateLimitPolicy{}
	err := v.Namespaces.Get(ctx, types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.Policy}, policy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, admission.Warnings{fmt.Sprintf("spec.policy: the Namespace has no RateLimitPolicy %s; the exception is judged once it has", e.Spec.Policy)}
	case err != nil:
		log.FromContext(ctx).Error(err, "Failed to read the policy of an exception", "namespace", e.Namespace, "policy", e.Spec.Policy)
		return nil, nil, admission.Warnings{"spec.policy: failed to read the policy; see condition Accepted"}
	}
	of, problems := compile.Compile(policy, compile.Everything(), time.Now()) //nolint:forbidigo // the plan holds the offsets of the next years
	if len(problems) > 0 {
		return nil, nil, admission.Warnings{fmt.Sprintf("spec.policy: RateLimitPolicy %s is not accepted; the exception is judged once it is", policy.Name)}
	}
	return policy, of, nil
}

// budgetWarnings warns of an exception that is likely to have no room in the budget of its Namespace.
func (v *exceptionValidator) budgetWarnings(e *v1alpha1.RateLimitException, all []v1alpha1.RateLimitException, now time.Time) []string {
	used := plan.Usage{}
	for i := range all {
		if all[i].Name != e.Name && now.Before(all[i].Spec.Until.Time) {
			used.Add(UsageOf(compile.ExceptionOfSize(&all[i])))
		}
	}
	budgets := plan.Budgets{Namespace: v.Sizes.Budget}
	shortage := budgets.Shortage(e.Namespace, UsageOf(compile.ExceptionOfSize(e)), used, plan.Usage{})
	if shortage == nil || !now.Before(e.Spec.Until.Time) {
		return nil
	}
	return []string{"spec: the exception will probably not be accepted (OverBudget): " + shortage.String()}
}
