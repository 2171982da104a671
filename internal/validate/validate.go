// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/policyfile"
	"github.com/weir-dev/weir/internal/warning"
)

// Severity is how bad a finding is.
type Severity string

// The severities.
const (
	// SeverityError is an object that the API server or the controller would not accept.
	SeverityError Severity = "error"
	// SeverityWarning is a valid object that is probably a mistake.
	SeverityWarning Severity = "warning"
)

// Finding is one error or warning.
type Finding struct {
	File string `json:"file"`
	// Line and Column count from 1.
	Line     int      `json:"line"`
	Column   int      `json:"column"`
	Severity Severity `json:"severity"`
	// Policy is "<namespace>/<name>" of a policy; empty if it is unknown.
	Policy string `json:"policy,omitempty"`
	// Object is the kind with "<namespace>/<name>" of an object that is not a policy.
	Object string `json:"object,omitempty"`
	// Field is the path of the field, as in "spec.limits[0].window"; empty if the finding is
	// not about one.
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	// Suggestion is the field or the value that was probably meant, or empty.
	Suggestion string `json:"suggestion,omitempty"`
}

// Policy is a policy that is valid by the schema.
type Policy struct {
	*policyfile.Policy
	// File is the name of its source.
	File string
	// Plan is nil if the policy does not compile.
	Plan *plan.Plan
}

// Result is what Run found.
type Result struct {
	// Policies are those that are valid by the schema, in the order of the files. Of several
	// policies with the same name it contains the first.
	Policies []*Policy
	// Findings are in the order of the files and lines.
	Findings []Finding
	// KeyGroups are the key groups without errors, Exceptions the exceptions.
	KeyGroups  []*policyfile.KeyGroup
	Exceptions []*policyfile.Exception
	// NotChecked are the Namespaces whose grants are unknown, sorted.
	NotChecked []string
}

// IsEmpty reports whether the files have no object of Weir that is valid by the schema.
func (r *Result) IsEmpty() bool {
	return len(r.Policies)+len(r.KeyGroups)+len(r.Exceptions) == 0
}

// Count returns the number of findings with the severity.
func (r *Result) Count(s Severity) (n int) {
	for i := range r.Findings {
		if r.Findings[i].Severity == s {
			n++
		}
	}
	return n
}

// valid returns the number of policies without errors.
func (r *Result) valid() (n int) {
	for _, p := range r.Policies {
		if p.Plan != nil {
			n++
		}
	}
	return n
}

// Run judges all sources together. An object without a namespace gets the given one.
func Run(ctx context.Context, sources []Source, defaultNamespace string) *Result {
	c := &checker{
		result: &Result{}, order: map[string]int{}, defined: map[string]*Policy{}, named: map[string]namedObject{}, namespaces: map[string]*namespace{},
		policiesOf: map[string][]v1alpha1.RateLimitPolicy{}, keyGroupsOf: map[string][]v1alpha1.RateLimitKeyGroup{},
	}
	for i, source := range sources {
		c.order[source.Name] = i
		c.read(source.Name, policyfile.Parse(ctx, source.Data, defaultNamespace))
	}
	for _, p := range c.result.Policies {
		c.compile(p)
	}
	c.compileKeyGroups()
	c.warn()
	c.warnOfKeyGroups()
	c.judgeExceptions()
	r := c.result
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(c.order[a.File]-c.order[b.File], a.Line-b.Line, a.Column-b.Column)
	})
	r.NotChecked = slices.Compact(slices.Sorted(slices.Values(r.NotChecked)))
	return r
}

// checker collects the result.
type checker struct {
	result     *Result
	order      map[string]int // of the sources
	defined    map[string]*Policy
	named      map[string]namedObject
	namespaces map[string]*namespace

	policiesOf  map[string][]v1alpha1.RateLimitPolicy // by Namespace
	exceptions  []*exception
	keyGroups   []*keyGroup
	keyGroupsOf map[string][]v1alpha1.RateLimitKeyGroup // by Namespace
}

// add adds a finding in the file.
func (c *checker) add(file string, severity Severity, p policyfile.Problem) {
	c.result.Findings = append(c.result.Findings, Finding{
		File: file, Line: p.Position.Line, Column: p.Position.Column, Severity: severity,
		Policy: p.Policy, Object: p.Object, Field: p.Field, Message: p.Text, Suggestion: p.Suggestion,
	})
}

// addErrors adds what the compiler found out about an object.
func (c *checker) addErrors(file string, errs field.ErrorList, problem problemOf) {
	for _, err := range errs {
		c.add(file, SeverityError, problem(err.Field, err.Error()))
	}
}

// addWarnings adds warnings about an object.
func (c *checker) addWarnings(file string, warnings []string, problem problemOf) {
	for _, text := range warnings {
		c.add(file, SeverityWarning, problem(warning.FieldOf(text), text))
	}
}

// problemOf returns a problem of an object.
type problemOf func(field, text string) policyfile.Problem

// isFirst reports whether no object before has the name, such as "policy shop/login". It adds a finding for further ones.
func (c *checker) isFirst(name, file string, problem problemOf) bool {
	first, taken := c.named[name]
	if !taken {
		c.named[name] = namedObject{file, problem}
		return true
	}
	at := first.problem("metadata.name", "").Position
	c.add(file, SeverityError, problem("metadata.name",
		fmt.Sprintf("metadata.name: %s is also defined at %s:%d:%d", name, first.file, at.Line, at.Column)))
	return false
}

// namedObject is the first object with a name.
type namedObject struct {
	file    string
	problem problemOf
}

// read adds the policies, Namespaces and problems of a file.
func (c *checker) read(name string, file *policyfile.File) {
	for _, p := range file.Problems {
		c.add(name, SeverityError, p)
	}
	for _, n := range file.Namespaces {
		c.addNamespace(name, n)
	}
	for _, read := range file.Policies {
		p := &Policy{Policy: read, File: name}
		if !c.isFirst("policy "+p.ID(), name, p.Problem) {
			continue
		}
		c.defined[p.ID()] = p
		c.result.Policies = append(c.result.Policies, p)
		c.policiesOf[p.Namespace] = append(c.policiesOf[p.Namespace], *p.RateLimitPolicy)
	}
	for _, g := range file.KeyGroups {
		if c.isFirst(g.Object(), name, g.Problem) {
			c.keyGroups = append(c.keyGroups, &keyGroup{KeyGroup: g, file: name})
			c.keyGroupsOf[g.Namespace] = append(c.keyGroupsOf[g.Namespace], *g.RateLimitKeyGroup)
		}
	}
	for _, e := range file.Exceptions {
		if c.isFirst(e.Object(), name, e.Problem) {
			c.exceptions = append(c.exceptions, &exception{Exception: e, file: name})
		}
	}
}

func (c *checker) compile(p *Policy) {
	compiled, problems := compile.Compile(p.RateLimitPolicy, c.grantOf(p), time.Now()) //nolint:forbidigo // the plan holds the offsets of the next years
	c.addErrors(p.File, problems, p.Problem)
	p.Plan = compiled
}

// warn adds the warnings of the policies that compile.
func (c *checker) warn() {
	index := &warning.MatchIndex{}
	for _, p := range c.result.Policies {
		index.Replace(nil, p.RateLimitPolicy)
	}
	for _, p := range c.result.Policies {
		if p.Plan == nil {
			continue
		}
		review, warnings := &warning.Review{}, warning.OfPlan(p.Plan)
		if p.Spec.Mode != v1alpha1.ModeDisabled {
			warnings = append(warnings, warning.Overlaps(p.RateLimitPolicy, index, true)...)
			warnings = append(warnings, review.CrowdedMatches(p.RateLimitPolicy, c.policiesOf[p.Namespace])...)
		}
		warnings = append(warnings, review.Groups(p.RateLimitPolicy, p.Plan, c.keyGroupsOf[p.Namespace])...)
		c.addWarnings(p.File, append(warnings, review.Unfinished()...), p.Problem)
	}
}
