// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// catchAllMatches warns of matches that hold for every request. An empty match is
// invalid; this finds those that are empty in effect.
func catchAllMatches(p *plan.Plan) (warnings []string) {
	if p.Mode != plan.ModeEnforce {
		return nil
	}
	for i := range p.Matches {
		if isCatchAll(&p.Matches[i]) {
			warnings = append(warnings, fmt.Sprintf("%s is a catch-all match: it holds for every request; mode Shadow shows what it would deny",
				at("matches", i)))
		}
	}
	return warnings
}

func isCatchAll(m *plan.Match) bool {
	when := strings.TrimSpace(m.When)
	return len(m.Targets) == 0 && len(m.Hosts) == 0 && len(m.Methods) == 0 && len(m.Descriptors) == 0 &&
		len(m.Headers) == 0 && len(m.QueryParameters) == 0 && m.Domain == "" &&
		(len(m.Paths) == 0 || slices.Contains(m.Paths, "/*")) &&
		(when == "" || when == "true")
}
