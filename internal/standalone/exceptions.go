// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/policyfile"
)

// compileExceptions returns the exceptions of all files, sorted by ID, each judged by its policy among the records.
// Exceptions with a problem are left out, even if they were valid before. Equal ones stay the same objects.
func (f *policyFiles) compileExceptions(files map[string]*policyFile, records []plan.Record) (exceptions []plan.Record, errs []*fileError) {
	policies := policiesOf(files)
	plans := map[string]*plan.Plan{}
	for _, record := range records {
		if p, ok := record.(*plan.Plan); ok {
			plans[p.ID()] = p
		}
	}
	now := time.Now() //nolint:forbidigo // an end is at most 90 days ahead
	definedIn := map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		for _, e := range files[path].exceptions {
			compiled, failures := compileException(e, policies[e.PolicyID()], plans[e.PolicyID()], now)
			for _, failure := range failures {
				p := e.Problem(failure.Field, failure.Error())
				errs = append(errs, &fileError{path: path, position: p.Position, err: errors.New(p.Message())})
			}
			if compiled == nil {
				continue
			}
			if other, taken := definedIn[compiled.ID()]; taken {
				errs = append(errs, &fileError{path: path, err: fmt.Errorf("%s is also defined in %s: keep one of them", e.Object(), other)})
				continue
			}
			definedIn[compiled.ID()] = path
			exceptions = append(exceptions, f.lastEqual(compiled))
		}
	}
	slices.SortFunc(exceptions, func(a, b plan.Record) int { return cmp.Compare(a.ID(), b.ID()) })
	return exceptions, errs
}

func compileException(
	e *policyfile.Exception, policy *v1alpha1.RateLimitPolicy, of *plan.Plan, now time.Time,
) (*plan.Exception, field.ErrorList) {
	if policy == nil || of == nil {
		return nil, field.ErrorList{field.NotFound(field.NewPath("spec", "policy"), e.Spec.Policy)}
	}
	return compile.Exception(e.RateLimitException, policy, of, now)
}

// policiesOf returns the policies by ID, of two with one ID the one that merge takes.
func policiesOf(files map[string]*policyFile) map[string]*v1alpha1.RateLimitPolicy {
	policies := map[string]*v1alpha1.RateLimitPolicy{}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		for id, policy := range files[path].policies {
			if policies[id] == nil {
				policies[id] = policy
			}
		}
	}
	return policies
}

// lastEqual returns the equal exception of the last load, or else the given one.
func (f *policyFiles) lastEqual(compiled *plan.Exception) plan.Record {
	for _, record := range f.records {
		if last, ok := record.(*plan.Exception); ok && last.ID() == compiled.ID() && reflect.DeepEqual(last, compiled) {
			return last
		}
	}
	return compiled
}
