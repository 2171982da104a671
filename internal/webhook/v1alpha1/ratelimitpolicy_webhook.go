// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/grant"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/message"
)

// +kubebuilder:webhookconfiguration:mutating=false,name=weir
// +kubebuilder:webhook:path=/validate-ratelimit-weir-dev-v1alpha1-ratelimitpolicy,mutating=false,failurePolicy=ignore,matchPolicy=Equivalent,sideEffects=None,timeoutSeconds=5,groups=ratelimit.weir.dev,resources=ratelimitpolicies,verbs=create;update,versions=v1alpha1,name=ratelimitpolicies.ratelimit.weir.dev,serviceName=weir-webhook,serviceNamespace=weir-system,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-being-deleted","expression":"!has(object.metadata.deletionTimestamp)"}]}`

// Path is where the API server asks.
const Path = "/validate-ratelimit-weir-dev-v1alpha1-ratelimitpolicy"

// maxWarningBytes is the length from which on the API server may cut a warning.
const maxWarningBytes = 256

// Validator judges policies that are created or updated.
type Validator struct {
	// Policies lists the policies there are, from a cache.
	Policies client.Reader
	// Namespaces reads from the API server itself: a cache that has not seen the
	// annotation of a moment ago would refuse what is granted.
	Namespaces client.Reader
	// Tenancy says what policies may match.
	Tenancy compile.Tenancy
}

var _ admission.Validator[*v1alpha1.RateLimitPolicy] = (*Validator)(nil)

// NewHandler returns what answers at Path, for any server.
func NewHandler(scheme *runtime.Scheme, v *Validator) (http.Handler, error) {
	return admission.StandaloneWebhook(admission.WithValidator(scheme, v), admission.StandaloneOptions{
		Logger: log.Log.WithName("webhook"), MetricsPath: Path,
	})
}

// ValidateCreate refuses a policy that would not be accepted.
func (v *Validator) ValidateCreate(ctx context.Context, policy *v1alpha1.RateLimitPolicy) (admission.Warnings, error) {
	return v.validate(ctx, nil, policy)
}

// ValidateUpdate refuses a spec that would not be accepted. An update that leaves
// the spec as it was passes whatever it says: to refuse it would mend nothing, and
// keep others from taking their label or finalizer off.
func (v *Validator) ValidateUpdate(ctx context.Context, was, policy *v1alpha1.RateLimitPolicy) (admission.Warnings, error) {
	if !policy.DeletionTimestamp.IsZero() || equality.Semantic.DeepEqual(was.Spec, policy.Spec) {
		return nil, nil
	}
	return v.validate(ctx, was, policy)
}

// ValidateDelete lets everything go. Nobody asks it.
func (*Validator) ValidateDelete(context.Context, *v1alpha1.RateLimitPolicy) (admission.Warnings, error) {
	return nil, nil
}

func (v *Validator) validate(ctx context.Context, was, policy *v1alpha1.RateLimitPolicy) (warnings admission.Warnings, err error) {
	granted, err := grant.Of(ctx, v.Namespaces, v.Tenancy, policy.Namespace)
	if err != nil {
		// As if there were no webhook: the controller judges again.
		log.FromContext(ctx).Error(err, "Cannot read what the Namespace is granted", "namespace", policy.Namespace)
		granted = compile.Everything()
		warnings = append(warnings, "spec.matches: could not be compared with what the Namespace is granted; see condition Accepted")
	}
	compiled, problems := compile.Compile(policy, granted)
	if len(problems) > 0 {
		return warnings, apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("RateLimitPolicy").GroupKind(), policy.Name, problems)
	}
	warnings = append(warnings, unusedOverrides(compiled)...)
	warnings = append(warnings, idleLimits(compiled)...)
	warnings = append(warnings, catchAllMatches(compiled)...)
	warnings = append(warnings, v.overlapWarnings(ctx, policy)...)
	if was != nil {
		warnings = append(warnings, editWarnings(was, compiled)...)
	}
	for i := range warnings {
		warnings[i] = message.Truncate(warnings[i], maxWarningBytes)
	}
	return warnings, nil
}

// editWarnings says which counters the edit loses. A policy that did not compile has none
// that are known here.
func editWarnings(was *v1alpha1.RateLimitPolicy, is *plan.Plan) []string {
	before, problems := compile.Compile(was, compile.Everything())
	if len(problems) > 0 {
		return nil
	}
	return droppedCounters(before, is)
}

// overlapWarnings names the policies that apply to the same requests.
func (v *Validator) overlapWarnings(ctx context.Context, policy *v1alpha1.RateLimitPolicy) []string {
	if len(policy.Spec.Matches) == 0 || policy.Spec.Mode == v1alpha1.ModeDisabled {
		return nil
	}
	list := &v1alpha1.RateLimitPolicyList{}
	if err := v.Policies.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list policies")
		return nil
	}
	return overlappingPolicies(policy, list.Items, v.Tenancy == compile.TenancyCluster)
}

// at is the path of an entry of a list in the spec, as errors write it.
func at(list string, i int) *field.Path { return field.NewPath("spec", list).Index(i) }
