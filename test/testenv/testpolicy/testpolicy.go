// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testpolicy builds RateLimitPolicies for tests.
//
// testpolicy.go builds one step by step, numbered.go builds many, read.go reads some.
package testpolicy

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Builder builds a RateLimitPolicy step by step, so that a test sets only the
// fields that matter to it.
type Builder struct {
	policy v1alpha1.RateLimitPolicy
}

// Make starts a policy with the given "namespace/name"; the default namespace is
// "default". It has no limits and none of the defaults of the API server.
func Make(name string) *Builder {
	namespace, base, found := strings.Cut(name, "/")
	if !found {
		namespace, base = metav1.NamespaceDefault, name
	}
	return &Builder{policy: v1alpha1.RateLimitPolicy{
		TypeMeta: metav1.TypeMeta{
			APIVersion: v1alpha1.GroupVersion.String(),
			Kind:       "RateLimitPolicy",
		},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: base},
	}}
}

// Obj returns the policy. Later steps do not change it.
func (b *Builder) Obj() *v1alpha1.RateLimitPolicy {
	return b.policy.DeepCopy()
}

// Generation sets metadata.generation, which the API server otherwise sets.
func (b *Builder) Generation(generation int64) *Builder {
	b.policy.Generation = generation
	return b
}

// UID sets metadata.uid, which the API server otherwise sets.
func (b *Builder) UID(uid string) *Builder {
	b.policy.UID = types.UID(uid)
	return b
}

// Mode sets spec.mode.
func (b *Builder) Mode(mode v1alpha1.Mode) *Builder {
	b.policy.Spec.Mode = mode
	return b
}

// Target adds a reference to a Gateway or route in the Namespace of the policy.
func (b *Builder) Target(kind, name string) *Builder {
	b.policy.Spec.TargetRefs = append(b.policy.Spec.TargetRefs, gatewayv1.LocalPolicyTargetReferenceWithSectionName{
		LocalPolicyTargetReference: gatewayv1.LocalPolicyTargetReference{Group: gatewayv1.GroupName, Kind: gatewayv1.Kind(kind), Name: gatewayv1.ObjectName(name)},
	})
	return b
}

// Match adds an entry to spec.matches.
func (b *Builder) Match(match v1alpha1.Match) *Builder {
	b.policy.Spec.Matches = append(b.policy.Spec.Matches, match)
	return b
}

// Key adds parts to spec.key.
func (b *Builder) Key(parts ...v1alpha1.KeyPart) *Builder {
	b.policy.Spec.Key = append(b.policy.Spec.Key, parts...)
	return b
}

// OnMissingKey sets spec.onMissingKey.
func (b *Builder) OnMissingKey(onMissingKey v1alpha1.OnMissingKey) *Builder {
	b.policy.Spec.OnMissingKey = onMissingKey
	return b
}

// Limit adds an entry to spec.limits; the functions may set its other fields.
func (b *Builder) Limit(
	name string, algorithm v1alpha1.Algorithm, threshold int64, window v1alpha1.Duration,
	set ...func(*v1alpha1.Limit),
) *Builder {
	limit := v1alpha1.Limit{Name: name, Algorithm: algorithm, Threshold: threshold, Window: window}
	for _, f := range set {
		f(&limit)
	}
	b.policy.Spec.Limits = append(b.policy.Spec.Limits, limit)
	return b
}

// Edit changes the entry of spec.limits at index i.
func (b *Builder) Edit(i int, edit func(*v1alpha1.Limit)) *Builder {
	edit(&b.policy.Spec.Limits[i])
	return b
}

// Counting sets spec.counting.
func (b *Builder) Counting(counting v1alpha1.Counting) *Builder {
	b.policy.Spec.Counting = counting
	return b
}

// DenyWhen sets spec.denyWhen.
func (b *Builder) DenyWhen(denyWhen v1alpha1.DenyWhen) *Builder {
	b.policy.Spec.DenyWhen = denyWhen
	return b
}

// Reservations sets spec.reservations.
func (b *Builder) Reservations(maxTTL v1alpha1.Duration, maxOpen int32) *Builder {
	b.policy.Spec.Reservations = v1alpha1.Reservations{MaxTTL: maxTTL, MaxOpen: &maxOpen}
	return b
}

// Slices sets spec.slices.
func (b *Builder) Slices(maxPercent int32, maxAge v1alpha1.Duration) *Builder {
	b.policy.Spec.Slices = v1alpha1.Slices{MaxPercent: maxPercent, MaxAge: maxAge}
	return b
}

// Override adds entries to spec.overrides.
func (b *Builder) Override(overrides ...v1alpha1.Override) *Builder {
	b.policy.Spec.Overrides = append(b.policy.Spec.Overrides, overrides...)
	return b
}

// FailureMode sets spec.failureMode.
func (b *Builder) FailureMode(mode v1alpha1.FailureMode) *Builder {
	b.policy.Spec.FailureMode = mode
	return b
}

// Denial sets spec.denial.
func (b *Builder) Denial(code v1alpha1.DenialCode, message string) *Builder {
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
