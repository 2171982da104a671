// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// OfPlan returns the warnings that the policy causes on its own.
func OfPlan(p *plan.Plan) []string {
	return slices.Concat(fittedKeys(p), unusedOverrides(p), ineffectiveLimits(p), catchAllMatches(p), unheldMatches(p), slicedClients(p),
		unreadFacts(p), expensiveExpressions(p))
}

// FieldOf returns the path of the field that the warning is about.
func FieldOf(warning string) string {
	if end := strings.IndexAny(warning, ": "); end >= 0 {
		return warning[:end]
	}
	return warning
}

// at returns the path of a list item in the spec.
func at(list string, i int) *field.Path { return field.NewPath("spec", list).Index(i) }

// atMatch returns the path of the field that the match of the policy's plan comes from.
func atMatch(policy *v1alpha1.RateLimitPolicy, i int) *field.Path {
	if len(policy.Spec.Matches) == 0 {
		return field.NewPath("spec", "targetRefs")
	}
	return at("matches", i)
}
