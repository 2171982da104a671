// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/warning"
)

// +kubebuilder:webhook:path=/validate-ratelimit-weir-dev-v1alpha1-ratelimitkeygroup,mutating=false,failurePolicy=ignore,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=ratelimit.weir.dev,resources=ratelimitkeygroups,verbs=create;update,versions=v1alpha1,name=ratelimitkeygroups.ratelimit.weir.dev,serviceName=weir-webhook,serviceNamespace=weir-system,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"}]}`

// KeyGroupPath is the HTTP path of the webhook of key groups.
const KeyGroupPath = "/validate-ratelimit-weir-dev-v1alpha1-ratelimitkeygroup"

// keyGroupValidator validates key groups that are created or updated.
type keyGroupValidator struct{ *Validator }

var _ admission.Validator[*v1alpha1.RateLimitKeyGroup] = (*keyGroupValidator)(nil)

// ValidateCreate rejects a key group that the controller would not accept.
func (v *keyGroupValidator) ValidateCreate(ctx context.Context, group *v1alpha1.RateLimitKeyGroup) (admission.Warnings, error) {
	return v.validate(ctx, group)
}

// ValidateUpdate rejects a spec that the controller would not accept. An update of the metadata always passes.
func (v *keyGroupValidator) ValidateUpdate(ctx context.Context, was, group *v1alpha1.RateLimitKeyGroup) (admission.Warnings, error) {
	if !group.DeletionTimestamp.IsZero() || equality.Semantic.DeepEqual(was.Spec, group.Spec) {
		return nil, nil
	}
	return v.validate(ctx, group)
}

// ValidateDelete accepts every deletion. The webhook is not configured for them.
func (*keyGroupValidator) ValidateDelete(context.Context, *v1alpha1.RateLimitKeyGroup) (admission.Warnings, error) {
	return nil, nil
}

func (v *keyGroupValidator) validate(ctx context.Context, group *v1alpha1.RateLimitKeyGroup) (warnings admission.Warnings, err error) {
	defer func() { v.Reviews.count(warnings, err) }()
	compiled, problems := compile.KeyGroup(group)
	if err := invalid("RateLimitKeyGroup", group.Name, problems); err != nil {
		return nil, err
	}
	if v.Sizes == nil {
		return nil, nil
	}
	groups, policies := &v1alpha1.RateLimitKeyGroupList{}, &v1alpha1.RateLimitPolicyList{}
	if !v.list(ctx, group.Namespace, groups) || !v.list(ctx, group.Namespace, policies) {
		return nil, nil
	}
	review, end := v.beginReview(ctx)
	defer end()
	warnings = review.KeyGroup(group, groups.Items, policies.Items)
	warnings = append(warnings, v.budgetWarnings(review, compiled, groups.Items)...)
	return truncated(append(warnings, review.Unfinished()...)), nil
}

// budgetWarnings warns of a key group that is likely to have no room in the budget of its Namespace.
func (v *keyGroupValidator) budgetWarnings(review *warning.Review, compiled *plan.KeyGroup, groups []v1alpha1.RateLimitKeyGroup) []string {
	shortage := v.Sizes.shortageOfKeyGroup(review, compiled, groups)
	if shortage == nil {
		return nil
	}
	return []string{"spec: the key group will probably not be accepted (OverBudget): " + shortage.String()}
}
