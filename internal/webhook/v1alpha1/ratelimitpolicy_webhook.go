// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/grant"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/message"
	"github.com/weir-dev/weir/internal/warning"
)

// +kubebuilder:webhookconfiguration:mutating=false,name=weir
// +kubebuilder:webhook:path=/validate-ratelimit-weir-dev-v1alpha1-ratelimitpolicy,mutating=false,failurePolicy=ignore,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=ratelimit.weir.dev,resources=ratelimitpolicies,verbs=create;update,versions=v1alpha1,name=ratelimitpolicies.ratelimit.weir.dev,serviceName=weir-webhook,serviceNamespace=weir-system,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"}]}`

// Path is the HTTP path of the webhook.
const Path = "/validate-ratelimit-weir-dev-v1alpha1-ratelimitpolicy"

// maxWarningBytes is the longest warning that the API server never truncates.
const maxWarningBytes = 256

// Validator validates policies that are created or updated.
type Validator struct {
	// Matches holds the matches of all policies, Exceptions all exceptions. See Follow.
	Matches    *warning.MatchIndex
	Exceptions *warning.ExceptionIndex
	// Sizes estimates the use of budgets; nil does not warn of them.
	Sizes *RecordSizes
	// ReviewTime bounds the comparisons of an object with others of its Namespace, which serve warnings alone, while an API
	// server waits. Defaults to 50 ms.
	ReviewTime time.Duration
	// Reviews counts the answers; nil counts none.
	Reviews *Reviews
	// Namespaces reads Namespaces and policies from the API server: a cache that lags behind an annotation
	// would reject what was just granted.
	Namespaces client.Reader
	// Access checks whether a caller may write the name of another user into RequestedByAnnotation; nil permits none.
	Access authorizationclient.SubjectAccessReviewInterface
	// Tenancy determines which hosts and domains policies may match.
	Tenancy compile.Tenancy
}

var _ admission.Validator[*v1alpha1.RateLimitPolicy] = (*Validator)(nil)

// NewHandler returns the HTTP handler for Path, KeyGroupPath and ExceptionPath.
func NewHandler(scheme *runtime.Scheme, v *Validator) (http.Handler, error) {
	mux := http.NewServeMux()
	for path, webhook := range map[string]*admission.Webhook{
		Path:          admission.WithValidator(scheme, v),
		KeyGroupPath:  admission.WithValidator(scheme, &keyGroupValidator{v}),
		ExceptionPath: admission.WithValidator(scheme, &exceptionValidator{v}),
	} {
		options := admission.StandaloneOptions{Logger: log.Log.WithName("webhook"), MetricsPath: path}
		handler, err := admission.StandaloneWebhook(webhook, options)
		if err != nil {
			return nil, err
		}
		mux.Handle(path, handler)
	}
	return mux, nil
}

// ValidateCreate rejects a policy that the controller would not accept.
func (v *Validator) ValidateCreate(ctx context.Context, policy *v1alpha1.RateLimitPolicy) (admission.Warnings, error) {
	return v.validate(ctx, nil, policy)
}

// ValidateUpdate rejects a spec, or a time of ShadowUntilAnnotation, that the controller would
// not accept. An update that leaves both unchanged always passes: the metadata of a policy that
// became invalid, by a grant that was narrowed, can still be edited.
func (v *Validator) ValidateUpdate(ctx context.Context, was, policy *v1alpha1.RateLimitPolicy) (admission.Warnings, error) {
	switch {
	case !policy.DeletionTimestamp.IsZero():
		return nil, nil
	case !equality.Semantic.DeepEqual(was.Spec, policy.Spec):
		return v.validate(ctx, was, policy)
	case was.Annotations[v1alpha1.ShadowUntilAnnotation] != policy.Annotations[v1alpha1.ShadowUntilAnnotation]:
		_, problems := shadowOf(policy).Apply(nil, nil)
		return nil, invalid("RateLimitPolicy", policy.Name, problems)
	default:
		return nil, nil
	}
}

// ValidateDelete accepts every deletion. The webhook is not configured for them.
func (*Validator) ValidateDelete(context.Context, *v1alpha1.RateLimitPolicy) (admission.Warnings, error) {
	return nil, nil
}

func (v *Validator) validate(ctx context.Context, was, policy *v1alpha1.RateLimitPolicy) (warnings admission.Warnings, err error) {
	defer func() { v.Reviews.count(warnings, err) }()
	granted, err := grant.Of(ctx, v.Namespaces, v.Tenancy, policy.Namespace)
	if err != nil {
		// Skip only the grant check, which the controller repeats.
		log.FromContext(ctx).Error(err, "Failed to read the grant of the Namespace", "namespace", policy.Namespace)
		granted = compile.Everything()
		warnings = append(warnings, "spec.matches: failed to read the grant of the Namespace; see condition Accepted")
	}
	compiled, problems := shadowOf(policy).Apply(compile.Compile(policy, granted, time.Now())) //nolint:forbidigo // the plan holds the offsets of the next years
	if err := invalid("RateLimitPolicy", policy.Name, problems); err != nil {
		return warnings, err
	}
	warnings = append(warnings, warning.OfPlan(compiled)...)
	if policy.Spec.Mode != v1alpha1.ModeDisabled {
		warnings = append(warnings, warning.Overlaps(policy, v.Matches, v.Tenancy == compile.TenancyCluster)...)
	}
	warnings = append(warnings, v.namespaceWarnings(ctx, policy, compiled)...)
	if was != nil {
		warnings = append(warnings, editWarnings(was, compiled)...)
	}
	return truncated(warnings), nil
}

// truncated shortens the warnings to what the API server returns completely.
func truncated(warnings admission.Warnings) admission.Warnings {
	for i := range warnings {
		warnings[i] = message.Truncate(warnings[i], maxWarningBytes)
	}
	return warnings
}

// shadowOf returns what the annotation means now.
func shadowOf(policy *v1alpha1.RateLimitPolicy) compile.Shadow {
	return compile.ShadowOf(policy, time.Now()) //nolint:forbidigo // the annotation names a time
}

// invalid returns the error that lists the problems, nil for none.
func invalid(kind, name string, problems field.ErrorList) error {
	if len(problems) == 0 {
		return nil
	}
	return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), name, problems)
}

// editWarnings warns of the counters that the edit resets. The counters of an old
// policy that does not compile are unknown here.
func editWarnings(was *v1alpha1.RateLimitPolicy, is *plan.Plan) []string {
	before, problems := compile.Compile(was, compile.Everything(), time.Now()) //nolint:forbidigo // the plan holds the offsets of the next years
	if len(problems) > 0 {
		return nil
	}
	return warning.DroppedCounters(before, is)
}

// namespaceWarnings compares the policy with the other objects of its Namespace.
func (v *Validator) namespaceWarnings(ctx context.Context, policy *v1alpha1.RateLimitPolicy, compiled *plan.Plan) (warnings []string) {
	if v.Sizes == nil {
		return nil
	}
	policies, groups := &v1alpha1.RateLimitPolicyList{}, &v1alpha1.RateLimitKeyGroupList{}
	hasPolicies, hasGroups := v.list(ctx, policy.Namespace, policies), v.list(ctx, policy.Namespace, groups)
	review, end := v.beginReview(ctx)
	defer end()
	if hasPolicies && policy.Spec.Mode != v1alpha1.ModeDisabled {
		warnings = review.CrowdedMatches(policy, policies.Items)
	}
	if hasGroups {
		warnings = append(warnings, review.Groups(policy, compiled, groups.Items)...)
	}
	if hasPolicies {
		if shortage := v.Sizes.shortageOfPlan(review, compiled, policies.Items); shortage != nil {
			warnings = append(warnings, "spec: the policy will probably not be accepted (OverBudget): "+shortage.String())
		}
	}
	return append(warnings, review.Unfinished()...)
}

// defaultReviewTime is much shorter than a call of the webhook may take.
const defaultReviewTime = 50 * time.Millisecond

// beginReview returns a review that is over after ReviewTime or when ctx ends. The caller must call end.
func (v *Validator) beginReview(ctx context.Context) (review *warning.Review, end context.CancelFunc) {
	ctx, end = context.WithTimeout(ctx, cmp.Or(v.ReviewTime, defaultReviewTime))
	return &warning.Review{Ended: ctx.Done()}, end
}

// listTimeout bounds a list while the cache does not have the kind yet, such as before its CRD is installed.
const listTimeout = time.Second

// list reads the objects of the Namespace from the cache. It logs an error and then returns false.
func (v *Validator) list(ctx context.Context, namespace string, into client.ObjectList) bool {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	err := v.Sizes.Objects.List(ctx, into, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the objects of the Namespace", "namespace", namespace)
	}
	return err == nil
}
