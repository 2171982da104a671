// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"math"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/limiter/plan"
	webhookv1alpha1 "github.com/weir-dev/weir/internal/webhook/v1alpha1"
)

// keyRoom bounds the keys of key groups in the cache by the budgets: what is stored beyond them, perhaps while the webhook
// was down, must not take the memory of every replica. The cache holds other key groups without their keys, and the
// controller reads them from the API server when it needs them.
type keyRoom struct {
	budgets plan.Budgets

	mu    sync.Mutex
	kept  map[types.UID]plan.Usage // of key groups in the cache
	used  map[string]plan.Usage    // by Namespace
	total plan.Usage
}

func newKeyRoom(b plan.Budgets) *keyRoom {
	return &keyRoom{budgets: b, kept: map[types.UID]plan.Usage{}, used: map[string]plan.Usage{}}
}

// transform is compactKeys, and omits the keys of a key group without room. It has the form of a cache transform.
func (r *keyRoom) transform(object any) (any, error) {
	object, err := compactKeys(object)
	if group, ok := object.(*v1alpha1.RateLimitKeyGroup); ok && !r.take(group) {
		compile.OmitKeys(group)
	}
	return object, err
}

// take reserves room for the keys of the group, in place of what its earlier form has, and reports whether there is room.
func (r *keyRoom) take(group *v1alpha1.RateLimitKeyGroup) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release(group)
	need := usageOf(group)
	if r.budgets.Shortage(group.Namespace, need, r.used[group.Namespace], r.total) != nil {
		return false
	}
	r.kept[group.UID] = need
	r.add(group.Namespace, need)
	return true
}

// release gives back the room of the group. The caller holds the lock.
func (r *keyRoom) release(group *v1alpha1.RateLimitKeyGroup) {
	var none plan.Usage
	r.add(group.Namespace, none.Minus(r.kept[group.UID]))
	delete(r.kept, group.UID)
}

func (r *keyRoom) add(namespace string, change plan.Usage) {
	used := r.used[namespace]
	used.Add(change)
	if r.used[namespace] = used; used == (plan.Usage{}) {
		delete(r.used, namespace)
	}
	r.total.Add(change)
}

// usageOf returns what the key group needs of the budgets, valid or not.
func usageOf(group *v1alpha1.RateLimitKeyGroup) plan.Usage {
	record := &plan.KeyGroup{
		Namespace: group.Namespace, Name: group.Name, UID: string(group.UID), Generation: group.Generation,
		Group: group.Spec.Group, Keys: plan.NewKeyList(group.Spec.Keys...),
	}
	if usage := webhookv1alpha1.UsageOf(record); usage != (plan.Usage{}) {
		return usage
	}
	return plan.Usage{KeyBytes: math.MaxInt32} // larger than any valid one
}

// follow gives back the room of deleted key groups. It must be called before the cache starts.
func (r *keyRoom) follow(ctx context.Context, objects cache.Informers) error {
	return webhookv1alpha1.FollowObjects(ctx, objects, func(was, is *v1alpha1.RateLimitKeyGroup) {
		if was != nil && is == nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.release(was)
		}
	})
}
