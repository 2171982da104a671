// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"context"
	"sync"

	"github.com/weir-dev/weir/internal/limiter/engine/series"
	"github.com/weir-dev/weir/internal/limiter/observe"
	"github.com/weir-dev/weir/internal/limiter/traffic"
)

// observeWith creates the collector, if there is to be one, with the lists of blocks in the store.
func (e *Server) observeWith(blocks observe.BlockStore) {
	o := &e.options
	if !o.Observe {
		return
	}
	e.observed = observe.New(observe.Options{
		Blocks: blocks, Redis: o.Redis, Prefix: o.RedisPrefix, Replica: o.ReplicaName, Live: e.liveReplicas,
		Logger: o.Logger, Registerer: o.Registry,
	})
	e.outliving = append(e.outliving, e.observed.Start)
}

// liveReplicas returns the names of the live replicas, as far as they are known, and their number.
func (e *Server) liveReplicas(ctx context.Context) (names []string, count int) {
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

// startOutliving starts the tasks that outlive ctx, since decisions do while the endpoint drains. Call stop after the last
// decision; it waits for their end. They return nil.
func (e *Server) startOutliving(ctx context.Context) (stop func()) {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, task := range e.outliving {
		running.Go(func() { _ = task(ctx) })
	}
	return func() {
		end()
		running.Wait()
	}
}

// addReporter adds the Reporter of which policies have traffic, if anything reads the reports.
func (e *Server) addReporter() {
	o := &e.options
	if !o.Traffic || o.Redis == nil {
		return
	}
	reporter := traffic.NewReporter(traffic.Options{Redis: o.Redis, Prefix: o.RedisPrefix, Each: e.Sightings, Logger: o.Logger})
	if o.MetricsDetail != series.DetailNamespace {
		o.Registry.MustRegister(reporter)
	}
	e.outliving = append(e.outliving, reporter.Start)
}
