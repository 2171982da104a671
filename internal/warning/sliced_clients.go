// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"slices"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// slicedClients warns of slices in a policy against abuse: one with a limit for each client address, or with the code
// TooManyAttempts.
func slicedClients(p *plan.Plan) []string {
	byAddress := slices.ContainsFunc(p.Key, func(part plan.KeyPart) bool { return part.Type == plan.KeyRemoteAddress })
	if !p.Slices.Allowed() || !byAddress && p.Denial.Code != "TooManyAttempts" {
		return nil
	}
	return []string{"spec.slices is for large shared quotas: units in the slices of other replicas may deny a client early, " +
		"and its limit is too small for slices to save much"}
}
