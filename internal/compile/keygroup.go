// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// KeyGroup returns the record of the key group, with its keys sorted and without duplicates, or every problem that
// prevents one. Key groups that differ in the order of their keys give equal records.
func KeyGroup(group *v1alpha1.RateLimitKeyGroup) (*plan.KeyGroup, field.ErrorList) {
	keys := slices.Clone(group.Spec.Keys)
	slices.Sort(keys)
	compiled := &plan.KeyGroup{
		Namespace:  group.Namespace,
		Name:       group.Name,
		UID:        string(group.UID),
		Generation: group.Generation,
		Group:      group.Spec.Group,
		Keys:       plan.NewKeyList(slices.Compact(keys)...),
	}
	if err := compiled.Validate(); err != nil { // the schema should have rejected it
		return nil, field.ErrorList{field.Invalid(field.NewPath("spec"), field.OmitValueType{}, strings.ReplaceAll(err.Error(), "\n", "; "))}
	}
	return compiled, nil
}
