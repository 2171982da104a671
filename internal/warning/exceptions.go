// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Exception warns of an exception to the plan that has ended, that is for the key of another one, or that has no effect.
// others are exceptions of the Namespace; the exception itself may be among them, in an older form.
func Exception(e *plan.Exception, of *plan.Plan, others []*plan.Exception, now time.Time) (warnings []string) {
	if !now.Before(e.Until()) {
		return []string{"spec.until: has passed, so the exception has no effect"}
	}
	for _, other := range others {
		if other.Name == e.Name || other.Policy != e.Policy || !slices.Equal(other.Key, e.Key) || !now.Before(other.Until()) {
			continue
		}
		decides, until := e.Name, other.Until()
		if other.EndsAfter(e) {
			decides, until = other.Name, e.Until()
		}
		warnings = append(warnings, fmt.Sprintf("spec.key: exception %s is for the same key: until %s only %s applies, which ends last",
			other.Name, until.UTC().Format(time.RFC3339), decides))
	}
	return append(warnings, unreachedKey(e, of)...)
}

// unreachedKey warns of a key that no request has, or that an override exempts or denies.
func unreachedKey(e *plan.Exception, of *plan.Plan) []string {
	if len(e.Key) == 0 && len(of.Key) > 0 {
		if of.OnMissingKey == plan.MissingKeyShare {
			return nil
		}
		return []string{fmt.Sprintf("spec.key: has no parts, and onMissingKey %s lets no request without a key reach a limit", of.OnMissingKey)}
	}
	if _, err := of.FitKey(e.Key); err != nil {
		return []string{"spec.key: only checks that name this key have it: " + err.Error()}
	}
	for i := range of.Overrides {
		o := &of.Overrides[i]
		if len(e.Key) != 1 || len(o.CIDRs) > 0 || o.When != "" || !slices.Contains(o.Keys, e.Key[0]) {
			continue
		}
		if o.Action != plan.ActionLimit {
			return []string{fmt.Sprintf("spec.key: override %s of the policy selects the key with action %s, so the exception has no effect", o.Name, o.Action)}
		}
		return nil
	}
	return nil
}
