// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// unheldMatches warns of limits with Concurrency in policies with matches. Proxies send checks for
// the requests that match, and a check holds nothing, so the limit may never deny one.
func unheldMatches(p *plan.Plan) (warnings []string) {
	if len(p.Matches) == 0 {
		return nil
	}
	for i := range p.Limits {
		if p.Limits[i].Algorithm == plan.Concurrency {
			warnings = append(warnings, fmt.Sprintf("%s (%s) counts only reservations: a check that matches holds nothing, unless it reserves",
				at("limits", i), p.Limits[i].Name))
		}
	}
	return warnings
}
