// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"strings"

	"github.com/weir-dev/weir/api/v1alpha1"
)

// Summary returns the limits in one line, such as "burst 5/1m, daily 20/24h", with the
// windows as their author wrote them. The policy need not compile. A spec that is
// valid by the schema stays below the 2048 characters of status.summary.
func Summary(spec *v1alpha1.RateLimitPolicySpec) string {
	limits := make([]string, 0, len(spec.Limits))
	for _, l := range spec.Limits {
		limits = append(limits, fmt.Sprintf("%s %d/%s", l.Name, l.Threshold, l.Window))
	}
	return strings.Join(limits, ", ")
}
