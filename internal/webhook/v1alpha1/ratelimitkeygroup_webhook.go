// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// +kubebuilder:webhook:path=/validate-ratelimit-weir-dev-v1alpha1-ratelimitkeygroup,mutating=false,failurePolicy=ignore,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=ratelimit.weir.dev,resources=ratelimitkeygroups,verbs=create;update,versions=v1alpha1,name=ratelimitkeygroups.ratelimit.weir.dev,serviceName=weir-webhook,serviceNamespace=weir-system,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"}]}`

// KeyGroupPath is the HTTP path of the webhook of key groups.
const KeyGroupPath = "/validate-ratelimit-weir-dev-v1alpha1-ratelimitkeygroup"

// keyGroupValidator validates key groups that are created or updated.
type keyGroupValidator struct{ *Validator }

var _ admission.Validator[*v1alpha1.RateLimitKeyGroup] = (*keyGroupValidator)(nil)

// ValidateCreate rejects a key group that the controller would not accept, also one without room in the budget of its
// Namespace: key groups are large, and what is stored takes memory of the API server and its caches.
func (v *keyGroupValidator) ValidateCreate(ctx context.Context, group *v1alpha1.RateLimitKeyGroup) (admission.Warnings, error) {
	return v.validate(ctx, group)
}

// ValidateUpdate rejects a spec that the controller would not accept, also one that needs more room than there is. An update
// of the metadata always passes.
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
	if shortage := v.Sizes.shortageOfKeyGroup(review, compiled, groups.Items); shortage != nil {
		return nil, invalid("RateLimitKeyGroup", group.Name, field.ErrorList{
			field.Forbidden(field.NewPath("spec", "keys"), shortage.String()),
		})
	}
	warnings = review.KeyGroup(group, groups.Items, policies.Items)
	return truncated(append(warnings, review.Unfinished()...)), nil
}
