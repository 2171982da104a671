// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/warning"
)

// keyGroup is a key group among the files that is valid by the schema.
type keyGroup struct {
	*policyfile.KeyGroup
	file string
}

// addKeyGroup adds the key group, unless another one has its name.
func (c *checker) addKeyGroup(file string, g *policyfile.KeyGroup) {
	added := &keyGroup{KeyGroup: g, file: file}
	for _, first := range c.keyGroups {
		if first.Object() == g.Object() {
			at := first.Position("metadata.name")
			c.addToKeyGroup(added, SeverityError, "metadata.name",
				fmt.Sprintf("metadata.name: %s is also defined at %s:%d:%d", g.Object(), first.file, at.Line, at.Column))
			return
		}
	}
	c.keyGroups = append(c.keyGroups, added)
	c.keyGroupsOf[g.Namespace] = append(c.keyGroupsOf[g.Namespace], *g.RateLimitKeyGroup)
}

// addToKeyGroup adds a finding about a field of the key group.
func (c *checker) addToKeyGroup(g *keyGroup, severity Severity, field, message string) {
	c.add(g.file, g.Position(field), Finding{Severity: severity, Object: g.Object(), Field: field, Message: message})
}

func (c *checker) compileKeyGroups() {
	for _, g := range c.keyGroups {
		_, problems := compile.KeyGroup(g.RateLimitKeyGroup)
		for _, problem := range problems {
			c.addToKeyGroup(g, SeverityError, problem.Field, problem.Error())
		}
		if len(problems) == 0 {
			c.result.KeyGroups = append(c.result.KeyGroups, g.KeyGroup)
		}
	}
}

func (c *checker) warnOfKeyGroups() {
	for _, g := range c.keyGroups {
		review := &warning.Review{}
		warnings := review.KeyGroup(g.RateLimitKeyGroup, c.keyGroupsOf[g.Namespace], c.policiesOf[g.Namespace])
		for _, text := range append(warnings, review.Unfinished()...) {
			c.addToKeyGroup(g, SeverityWarning, warning.FieldOf(text), text)
		}
	}
}
