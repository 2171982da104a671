// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/policyfile"
)

// namespace is a Namespace among the files.
type namespace struct {
	*policyfile.Namespace
	file  string
	grant compile.Grant
}

// addNamespace adds the grant of the Namespace. Two Namespaces with the same name must grant
// the same.
func (c *checker) addNamespace(file string, n *policyfile.Namespace) {
	found := &namespace{Namespace: n, file: file, grant: compile.GrantOf(n.Annotations)}
	first := c.namespaces[n.Name]
	if first == nil {
		c.namespaces[n.Name] = found
		return
	}
	if !first.grant.Equal(found.grant) {
		c.add(file, SeverityError, policyfile.Problem{
			Position: n.Position, Field: "metadata.annotations",
			Text: fmt.Sprintf("metadata.annotations: Namespace %s grants other hosts or domains at %s:%d:%d",
				n.Name, first.file, first.Position.Line, first.Position.Column),
		})
	}
}

// grantOf returns the grant of the policy's Namespace. Without it, everything is granted, and
// the Namespace is reported if the policy would need a grant.
func (c *checker) grantOf(p *Policy) compile.Grant {
	if known := c.namespaces[p.Namespace]; known != nil {
		return known.grant
	}
	if len(p.Spec.Matches) > 0 && len(p.Spec.TargetRefs) == 0 {
		c.result.NotChecked = append(c.result.NotChecked, p.Namespace)
	}
	return compile.Everything()
}
