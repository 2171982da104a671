// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"

	"github.com/weir-dev/weir/internal/limiter/observe"
)

// observeWith creates the collector, if there is to be one, with the lists of blocks in the store.
func (e *Endpoint) observeWith(blocks observe.BlockStore) {
	o := &e.options
	if !o.Observe {
		return
	}
	e.observed = observe.New(observe.Options{
		Blocks: blocks, Redis: o.Redis, Prefix: o.RedisPrefix, Replica: o.ReplicaName, Live: e.liveReplicas,
		Logger: o.Logger, Registerer: o.Registry,
	})
}

// liveReplicas returns the names of the live replicas, as far as they are known, and their number.
func (e *Endpoint) liveReplicas(ctx context.Context) (names []string, count int) {
	count = 1
	if e.options.LiveReplicas != nil {
		count = e.options.LiveReplicas()
	}
	if e.options.Replicas != nil {
		for _, r := range e.options.Replicas(ctx) {
			names = append(names, r.Name)
		}
	}
	return names, count
}

// startObserving starts the collector, if there is one. It outlives ctx, since decisions do while the
// endpoint drains: call stop after the last of them.
func (e *Endpoint) startObserving(ctx context.Context) (stop func()) {
	if e.observed == nil {
		return func() {}
	}
	return startUntilStopped(ctx, e.observed.Start)
}

// startUntilStopped runs the task until stop is called, which waits for its end. The task does not end with
// ctx and returns nil.
func startUntilStopped(ctx context.Context, task func(context.Context) error) (stop func()) {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = task(ctx)
	}()
	return func() {
		end()
		<-ended
	}
}
