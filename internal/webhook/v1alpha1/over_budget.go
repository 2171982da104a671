// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// PlanSizes estimates how much of the budget of a Namespace its policies use. Only the leader
// knows it, since plans that do not compile any more, or that wait for room, count differently.
type PlanSizes struct {
	// Objects reads policies and key groups from a cache.
	Objects client.Reader
	// Budget is the budget of each Namespace.
	Budget plan.Budget

	mu    sync.Mutex
	known map[string]map[string]planSize // by Namespace and name
}

// planSize is the size of the plan of one generation; 0 if it does not compile.
type planSize struct {
	uid        types.UID
	generation int64
	bytes      int
}

// shortage returns why the plan is likely to have no room, or nil.
func (s *PlanSizes) shortage(ctx context.Context, compiled *plan.Plan) (*plan.OverBudget, error) {
	sizes, err := s.of(ctx, compiled.Namespace)
	if err != nil {
		return nil, err
	}
	change := plan.Usage{Bytes: sizeOf(compiled), Policies: 1}
	var used plan.Usage
	for name, size := range sizes {
		if size.bytes == 0 {
			continue
		}
		used.Add(plan.Usage{Bytes: size.bytes, Policies: 1})
		if name == compiled.Name {
			change.Add(plan.Usage{Bytes: -size.bytes, Policies: -1})
		}
	}
	budgets := plan.Budgets{Namespace: s.Budget}
	return budgets.Shortage(compiled.Namespace, change, used, plan.Usage{}), nil
}

// of returns the sizes of the plans of a Namespace. It compiles each generation once.
func (s *PlanSizes) of(ctx context.Context, namespace string) (map[string]planSize, error) {
	list := &v1alpha1.RateLimitPolicyList{}
	if err := s.Objects.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, next := s.known[namespace], make(map[string]planSize, len(list.Items))
	for i := range list.Items {
		policy := &list.Items[i]
		size := before[policy.Name]
		if size.uid != policy.UID || size.generation != policy.Generation {
			size = planSize{uid: policy.UID, generation: policy.Generation}
			compiled, problems := compile.Compile(policy, compile.Everything(), time.Now()) //nolint:forbidigo // the plan holds the offsets of the next years
			if len(problems) == 0 {
				size.bytes = sizeOf(compiled)
			}
		}
		next[policy.Name] = size
	}
	if s.known == nil {
		s.known = map[string]map[string]planSize{}
	}
	s.known[namespace] = next
	return next, nil
}

// sizeOf returns the bytes of the encoded record, 0 if it cannot be encoded.
func sizeOf(r plan.Record) int {
	data, err := plan.Encode(r)
	if err != nil {
		return 0
	}
	return len(data)
}
