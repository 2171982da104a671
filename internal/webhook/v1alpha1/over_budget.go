// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/warning"
)

// RecordSizes estimates how much of the budget of a Namespace its objects use. Only the leader
// knows it, since records that do not compile any more, or that wait for room, count differently.
type RecordSizes struct {
	// Objects reads policies, key groups and exceptions from a cache.
	Objects client.Reader
	// Budget is the budget of each Namespace.
	Budget plan.Budget

	mu    sync.Mutex
	known map[recordsOf]map[string]recordSize // by name
}

// recordsOf are the records of a kind in a Namespace.
type recordsOf struct {
	kind      plan.Kind
	namespace string
}

// recordSize is what the record of one generation needs of the budgets; nothing if it does not compile.
type recordSize struct {
	uid        types.UID
	generation int64
	usage      plan.Usage
}

// shortageOfPlan returns why the plan is likely to have no room beside the policies of its Namespace, or nil.
func (s *RecordSizes) shortageOfPlan(review *warning.Review, compiled *plan.Plan, policies []v1alpha1.RateLimitPolicy) *plan.OverBudget {
	return s.shortage(compiled, measure(s, review, recordsOf{plan.KindPlan, compiled.Namespace}, policies, func(policy *v1alpha1.RateLimitPolicy) plan.Usage {
		other, problems := compile.Compile(policy, compile.Everything(), time.Now()) //nolint:forbidigo // the plan holds the offsets of the next years
		if len(problems) > 0 {
			return plan.Usage{}
		}
		return UsageOf(other)
	}))
}

// shortageOfKeyGroup returns why the key group is likely to have no room beside the key groups of its Namespace, or nil.
func (s *RecordSizes) shortageOfKeyGroup(review *warning.Review, compiled *plan.KeyGroup, groups []v1alpha1.RateLimitKeyGroup) *plan.OverBudget {
	return s.shortage(compiled, measure(s, review, recordsOf{plan.KindKeyGroup, compiled.Namespace}, groups, func(group *v1alpha1.RateLimitKeyGroup) plan.Usage {
		other, problems := compile.KeyGroup(group)
		if len(problems) > 0 {
			return plan.Usage{}
		}
		return UsageOf(other)
	}))
}

// shortage returns why the record is likely to have no room beside the records of its kind and Namespace, or nil. They
// may include an earlier form of it. No map means that they are unknown.
func (s *RecordSizes) shortage(r plan.Record, beside map[string]recordSize) *plan.OverBudget {
	if beside == nil {
		return nil
	}
	namespace, own := plan.SplitID(r.ID())
	change, used := UsageOf(r), plan.Usage{}
	for name, size := range beside {
		used.Add(size.usage)
		if name == own {
			change = change.Minus(size.usage)
		}
	}
	budgets := plan.Budgets{Namespace: s.Budget}
	return budgets.Shortage(namespace, change, used, plan.Usage{})
}

// measureSteps is the number of steps of a review for which an object is compiled.
const measureSteps = 1 << 10

// measure returns the sizes of the records of these objects, which are all of their kind and Namespace, by name. It
// measures each generation once. If the review is over before, it returns nil, and the next review continues.
func measure[T any, O interface {
	*T
	client.Object
}](s *RecordSizes, review *warning.Review, of recordsOf, objects []T, usage func(O) plan.Usage) map[string]recordSize {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, next, whole := s.known[of], make(map[string]recordSize, len(objects)), true
	for i := range objects {
		object := O(&objects[i])
		measured := before[object.GetName()]
		if measured.uid != object.GetUID() || measured.generation != object.GetGeneration() {
			if whole = whole && review.Step(measureSteps, "budgets"); !whole {
				continue
			}
			measured = recordSize{object.GetUID(), object.GetGeneration(), usage(object)}
		}
		next[object.GetName()] = measured
	}
	if s.known == nil {
		s.known = map[recordsOf]map[string]recordSize{}
	}
	s.known[of] = next
	if !whole {
		return nil
	}
	return next
}

// UsageOf returns what the record needs of the budgets, nothing if it cannot be encoded.
func UsageOf(r plan.Record) plan.Usage {
	data, err := plan.Encode(r)
	if err != nil {
		return plan.Usage{}
	}
	return plan.UsageOf(r, len(data))
}
