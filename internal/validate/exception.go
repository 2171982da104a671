// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"
	"time"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/warning"
)

// exception is an exception among the files that is valid by the schema.
type exception struct {
	*policyfile.Exception
	file     string
	compiled *plan.Exception // nil if its policy is not among the files, or rejects it
}

// judgeExceptions compiles the exceptions and adds their warnings. An exception to a policy that is not among the files is
// not judged further; it counts as valid, since the policy may be applied already.
func (c *checker) judgeExceptions() {
	now := time.Now() //nolint:forbidigo // an end is at most 90 days ahead
	index := &warning.ExceptionIndex{}
	for _, e := range c.exceptions {
		p := c.defined[e.PolicyID()]
		if p == nil {
			c.addWarnings(e.file, []string{fmt.Sprintf("spec.policy: policy %s is not among the files", e.PolicyID())}, e.Problem)
			c.result.Exceptions = append(c.result.Exceptions, e.Exception)
		}
		if p == nil || p.Plan == nil {
			continue
		}
		record, problems := compile.Exception(e.RateLimitException, p.RateLimitPolicy, p.Plan, now)
		c.addErrors(e.file, problems, e.Problem)
		if record != nil {
			e.compiled = record
			index.Replace(nil, e.RateLimitException)
			c.result.Exceptions = append(c.result.Exceptions, e.Exception)
		}
	}
	for _, e := range c.exceptions {
		if e.compiled == nil {
			continue
		}
		of := c.defined[e.PolicyID()]
		warnings, _ := index.Warnings(e.compiled, of.RateLimitPolicy, of.Plan, now)
		c.addWarnings(e.file, warnings, e.Problem)
	}
}
