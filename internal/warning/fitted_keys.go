// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"fmt"

	"github.com/weir-dev/weir/internal/limiter/plan"
)

// fittedKeys warns of keys of overrides that are not the key of a request as they are: addresses that stand for their network,
// and texts that are not addresses. It has at most one warning of each kind for an override, with the first key.
func fittedKeys(p *plan.Plan) (warnings []string) {
	for i := range p.Overrides {
		o := &p.Overrides[i]
		var inside, misfits []string
		for j, key := range o.Keys {
			path := at("overrides", i).Child("keys").Index(j)
			if network, problem := p.Key[0].Fit(key); problem != "" { // a policy with keys has a key of one part
				misfits = append(misfits, fmt.Sprintf("%s: no request has the key %q: it %s", path, key, problem))
			} else if p.IsInside(key) {
				inside = append(inside, fmt.Sprintf("%s: %s stands for its network %s, which the policy counts as one client", path, key, network))
			}
		}
		for _, found := range [][]string{inside, misfits} {
			if n := len(found); n > 1 {
				found[0] += fmt.Sprintf("; the same holds for other keys of the override: %d", n-1)
			}
			if len(found) > 0 {
				warnings = append(warnings, found[0])
			}
		}
	}
	return warnings
}
