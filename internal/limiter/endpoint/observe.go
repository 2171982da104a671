// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint

import "github.com/weir-dev/weir/internal/limiter/observe"

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
func (e *Endpoint) liveReplicas() (names []string, count int) {
	count = 1
	if e.options.LiveReplicas != nil {
		count = e.options.LiveReplicas()
	}
	if e.options.Replicas != nil {
		for _, r := range e.options.Replicas() {
			names = append(names, r.Name)
		}
	}
	return names, count
}
