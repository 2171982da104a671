// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
)

// maxNamed is the largest number of policies that one warning names.
const maxNamed = 3

// Overlaps warns of other policies, not Disabled, with a match that equals one of
// the policy. All of them apply to such a request, which may be intended. The names of
// policies in other Namespaces are given only if trusted.
func Overlaps(policy *v1alpha1.RateLimitPolicy, index *MatchIndex, trusted bool) (warnings []string) {
	matches := compile.MatchesOf(policy)
	for i := range matches {
		named, count := index.others(keyOf(&matches[i]), policy, trusted, maxNamed)
		if count > 0 {
			warnings = append(warnings, fmt.Sprintf("%s: same match as %s; a request must pass every policy",
				atMatch(policy, i), nameList(named, count)))
		}
	}
	return warnings
}

// nameList returns the names, and the number of the other policies.
func nameList(named []string, count int) string {
	switch hidden := count - len(named); {
	case hidden == 0:
	case len(named) == 0:
		return fmt.Sprintf("policies of other Namespaces (%d)", hidden)
	default:
		named = append(named, fmt.Sprintf("%d more", hidden))
	}
	return strings.Join(named, ", ")
}
