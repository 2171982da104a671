// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/warning"
)

// keyGroup is a key group among the files that is valid by the schema.
type keyGroup struct {
	*policyfile.KeyGroup
	file string
}

func (c *checker) compileKeyGroups() {
	for _, g := range c.keyGroups {
		_, problems := compile.KeyGroup(g.RateLimitKeyGroup)
		c.addErrors(g.file, problems, g.Problem)
		if len(problems) == 0 {
			c.result.KeyGroups = append(c.result.KeyGroups, g.KeyGroup)
		}
	}
}

func (c *checker) warnOfKeyGroups() {
	for _, g := range c.keyGroups {
		review := &warning.Review{}
		warnings := review.KeyGroup(g.RateLimitKeyGroup, c.keyGroupsOf[g.Namespace], c.policiesOf[g.Namespace])
		c.addWarnings(g.file, append(warnings, review.Unfinished()...), g.Problem)
	}
}
