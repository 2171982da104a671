// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// PolicyBuilder builds a RateLimitPolicy step by step, so that a test sets only the
// fields that matter to it.
type PolicyBuilder struct {
	policy v1alpha1.RateLimitPolicy
}

// MakePolicy starts a policy with the given "namespace/name"; the default namespace is
// "default". It has no limits and none of the defaults of the API server.
func MakePolicy(name string) *PolicyBuilder {
	namespace, base, found := strings.Cut(name, "/")
	if !found {
		namespace, base = metav1.NamespaceDefault, name
	}
	return &PolicyBuilder{policy: v1alpha1.RateLimitPolicy{
		TypeMeta: metav1.TypeMeta{
			APIVersion: v1alpha1.GroupVersion.String(),
			Kind:       "RateLimitPolicy",
		},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: base},
	}}
}

// Obj returns the policy. Later steps do not change it.
func (b *PolicyBuilder) Obj() *v1alpha1.RateLimitPolicy {
	return b.policy.DeepCopy()
}

// Generation sets metadata.generation, which the API server otherwise sets.
func (b *PolicyBuilder) Generation(generation int64) *PolicyBuilder {
	b.policy.Generation = generation
	return b
}

// UID sets metadata.uid, which the API server otherwise sets.
func (b *PolicyBuilder) UID(uid string) *PolicyBuilder {
	b.policy.UID = types.UID(uid)
	return b
}

// Mode sets spec.mode.
func (b *PolicyBuilder) Mode(mode v1alpha1.Mode) *PolicyBuilder {
	b.policy.Spec.Mode = mode
	return b
}

// Target adds a reference to a Gateway or route in the Namespace of the policy.
func (b *PolicyBuilder) Target(kind, name string) *PolicyBuilder {
	b.policy.Spec.TargetRefs = append(b.policy.Spec.TargetRefs, gatewayv1.LocalPolicyTargetReferenceWithSectionName{
		LocalPolicyTargetReference: gatewayv1.LocalPolicyTargetReference{Group: gatewayv1.GroupName, Kind: gatewayv1.Kind(kind), Name: gatewayv1.ObjectName(name)},
	})
	return b
}

// Match adds an entry to spec.matches.
func (b *PolicyBuilder) Match(match v1alpha1.Match) *PolicyBuilder {
	b.policy.Spec.Matches = append(b.policy.Spec.Matches, match)
	return b
}

// Key adds parts to spec.key.
func (b *PolicyBuilder) Key(parts ...v1alpha1.KeyPart) *PolicyBuilder {
	b.policy.Spec.Key = append(b.policy.Spec.Key, parts...)
	return b
}

// OnMissingKey sets spec.onMissingKey.
func (b *PolicyBuilder) OnMissingKey(onMissingKey v1alpha1.OnMissingKey) *PolicyBuilder {
	b.policy.Spec.OnMissingKey = onMissingKey
	return b
}

// Limit adds an entry to spec.limits; the functions may set its other fields.
func (b *PolicyBuilder) Limit(
	name string, algorithm v1alpha1.Algorithm, threshold int64, window v1alpha1.Duration,
	set ...func(*v1alpha1.Limit),
) *PolicyBuilder {
	limit := v1alpha1.Limit{Name: name, Algorithm: algorithm, Threshold: threshold, Window: window}
	for _, f := range set {
		f(&limit)
	}
	b.policy.Spec.Limits = append(b.policy.Spec.Limits, limit)
	return b
}

// Edit changes the entry of spec.limits at index i.
func (b *PolicyBuilder) Edit(i int, edit func(*v1alpha1.Limit)) *PolicyBuilder {
	edit(&b.policy.Spec.Limits[i])
	return b
}

// Counting sets spec.counting.
func (b *PolicyBuilder) Counting(counting v1alpha1.Counting) *PolicyBuilder {
	b.policy.Spec.Counting = counting
	return b
}

// DenyWhen sets spec.denyWhen.
func (b *PolicyBuilder) DenyWhen(denyWhen v1alpha1.DenyWhen) *PolicyBuilder {
	b.policy.Spec.DenyWhen = denyWhen
	return b
}

// Reservations sets spec.reservations.
func (b *PolicyBuilder) Reservations(maxTTL v1alpha1.Duration, maxOpen int32) *PolicyBuilder {
	b.policy.Spec.Reservations = v1alpha1.Reservations{MaxTTL: maxTTL, MaxOpen: &maxOpen}
	return b
}

// Slices sets spec.slices.
func (b *PolicyBuilder) Slices(maxPercent int32, maxAge v1alpha1.Duration) *PolicyBuilder {
	b.policy.Spec.Slices = v1alpha1.Slices{MaxPercent: maxPercent, MaxAge: maxAge}
	return b
}

// Override adds entries to spec.overrides.
func (b *PolicyBuilder) Override(overrides ...v1alpha1.Override) *PolicyBuilder {
	b.policy.Spec.Overrides = append(b.policy.Spec.Overrides, overrides...)
	return b
}

// FailureMode sets spec.failureMode.
func (b *PolicyBuilder) FailureMode(mode v1alpha1.FailureMode) *PolicyBuilder {
	b.policy.Spec.FailureMode = mode
	return b
}

// Denial sets spec.denial.
func (b *PolicyBuilder) Denial(code v1alpha1.DenialCode, message string) *PolicyBuilder {
	b.policy.Spec.Denial = v1alpha1.Denial{Code: code, Message: message}
	return b
}

// Burst sets the burst of a Limit.
func Burst(units int64) func(*v1alpha1.Limit) {
	return func(l *v1alpha1.Limit) { l.Burst = &units }
}

// Bucket sets the bucket of a Limit.
func Bucket(bucket v1alpha1.Duration) func(*v1alpha1.Limit) {
	return func(l *v1alpha1.Limit) { l.Bucket = bucket }
}

// HardLimitPercent sets the hardLimitPercent of a Limit.
func HardLimitPercent(percent int32) func(*v1alpha1.Limit) {
	return func(l *v1alpha1.Limit) { l.HardLimitPercent = &percent }
}

// BlockDuration sets the blockDuration of a Limit.
func BlockDuration(duration v1alpha1.Duration) func(*v1alpha1.Limit) {
	return func(l *v1alpha1.Limit) { l.BlockDuration = duration }
}

// HeaderPart returns a part of a key that takes a header.
func HeaderPart(name string) v1alpha1.KeyPart {
	return v1alpha1.KeyPart{Type: v1alpha1.KeyPartHeader, Header: &v1alpha1.HeaderKey{Name: name}}
}

// RemoteAddressPart returns a part of a key that takes the client address, with the
// default prefix lengths.
func RemoteAddressPart() v1alpha1.KeyPart {
	return v1alpha1.KeyPart{Type: v1alpha1.KeyPartRemoteAddress, RemoteAddress: &v1alpha1.RemoteAddressKey{}}
}

// DescriptorPart returns a part of a key that takes the value of a descriptor entry.
func DescriptorPart(key string) v1alpha1.KeyPart {
	return v1alpha1.KeyPart{Type: v1alpha1.KeyPartDescriptor, Descriptor: &v1alpha1.DescriptorKey{Key: key}}
}

// PrincipalPart returns a part of a key that takes the authenticated identity.
func PrincipalPart() v1alpha1.KeyPart {
	return v1alpha1.KeyPart{Type: v1alpha1.KeyPartPrincipal, Principal: &v1alpha1.PrincipalKey{}}
}

// ExpressionPart returns a part of a key that takes the result of a CEL expression.
func ExpressionPart(cel string) v1alpha1.KeyPart {
	return v1alpha1.KeyPart{Type: v1alpha1.KeyPartExpression, Expression: &v1alpha1.ExpressionKey{CEL: cel}}
}
