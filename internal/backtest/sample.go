// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"context"
	"math/bits"
	"runtime/metrics"

	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

const (
	// maxKeys is the number of keys above which half of them are dropped. With their states they
	// take about 600 MiB.
	maxKeys = 1_500_000
	// maxLive is the live heap in bytes above which the same is done: a SlidingLog has more state.
	maxLive = 600 << 20
	// liveEvery is the number of calls between two looks at the heap.
	liveEvery = 1 << 16
	// levels bounds how often keys are dropped: at least one of 2^(levels-1) stays.
	levels = 14
)

// levelOf returns the level of the key, uniformly by its hash: half of all keys have level 0, a
// quarter level 1 and so on. The sample of level n has the keys of level n and above.
func levelOf(key store.Key) int {
	h := uint64(14695981039346656037) // FNV-1a, mixed so that the upper bits are uniform
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return min(bits.LeadingZeros64(h), levels-1)
}

// tally counts requests and those that were denied.
type tally struct {
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
}

func (t *tally) add(denied bool) {
	t.Requests++
	if denied {
		t.Denied++
	}
}

// Share returns the share that was denied, 0..1.
func (t *tally) Share() float64 {
	if t.Requests == 0 {
		return 0
	}
	return float64(t.Denied) / float64(t.Requests)
}

// leveled is a tally by level, so that keys that are dropped later can be taken out.
type leveled [levels]tally

// from returns the tally of the sample of the level.
func (l *leveled) from(level int) (sum tally) {
	for _, t := range l[level:] {
		sum.Requests += t.Requests
		sum.Denied += t.Denied
	}
	return sum
}

// policyTally is what one policy decided.
type policyTally struct {
	plan   *plan.Plan
	script *store.Policy // one of its variants
	total  leveled
	keys   map[store.Key]*tally
}

// recorder is the store of the engine. It counts verdicts by policy and key and, above maxKeys,
// leaves out the keys that are not in the sample: they are admitted and spend nothing.
type recorder struct {
	engine.Store
	policies map[string]*policyTally

	sample  int // the level
	keys    int
	maxKeys int
	maxLive uint64
	calls   int64
	partial store.Call
	kept    []int

	level int // of the last call: the lowest of its keys
}

func newRecorder(backend engine.Store, plans []*plan.Plan) *recorder {
	r := &recorder{Store: backend, policies: map[string]*policyTally{}, maxKeys: maxKeys, maxLive: maxLive}
	for _, p := range plans {
		r.policies[p.ID()] = &policyTally{plan: p, keys: map[store.Key]*tally{}}
	}
	return r
}

// begin begins a line, which need not lead to a call.
func (r *recorder) begin() { r.level = levels - 1 }

// Evaluate implements engine.Store.
func (r *recorder) Evaluate(ctx context.Context, call *store.Call) (*store.Reply, error) {
	r.kept = r.kept[:0]
	for i := range call.Entries {
		e := &call.Entries[i]
		level := r.keyLevel(e)
		r.level = min(r.level, level)
		if level >= r.sample {
			r.kept = append(r.kept, i)
		}
	}
	reply, err := r.evaluate(ctx, call)
	if err != nil {
		return nil, err
	}
	for _, i := range r.kept {
		r.count(&call.Entries[i], reply.Entries[i].Verdict != store.Admitted)
	}
	if r.calls++; r.keys > r.maxKeys || r.calls%liveEvery == 0 && r.tooLarge() {
		return reply, r.drop(ctx)
	}
	return reply, nil
}

// keyLevel returns the level of the key. The only key of a policy without key is in all samples.
func (r *recorder) keyLevel(e *store.Entry) int {
	if len(r.policies[e.Policy.ID()].plan.Key) == 0 {
		return levels - 1
	}
	return levelOf(e.Key)
}

// evaluate evaluates the entries that are in the sample.
func (r *recorder) evaluate(ctx context.Context, call *store.Call) (*store.Reply, error) {
	if len(r.kept) == len(call.Entries) {
		return r.Store.Evaluate(ctx, call)
	}
	reply := call.NewReply()
	for i := range reply.Entries {
		for j := range reply.Entries[i].Limits {
			reply.Entries[i].Limits[j].Admits = true
		}
	}
	if len(r.kept) == 0 {
		return reply, nil
	}
	r.partial.Clear()
	r.partial.Denied, r.partial.Draw = call.Denied, call.Draw
	for _, i := range r.kept {
		r.partial.Entries = append(r.partial.Entries, call.Entries[i])
	}
	partial, err := r.Store.Evaluate(ctx, &r.partial)
	if err != nil {
		return nil, err
	}
	for n, i := range r.kept {
		reply.Entries[i] = partial.Entries[n]
	}
	return reply, nil
}

func (r *recorder) count(e *store.Entry, denied bool) {
	p := r.policies[e.Policy.ID()]
	p.script = e.Policy
	p.total[r.keyLevel(e)].add(denied)
	key := p.keys[e.Key]
	if key == nil {
		key = &tally{}
		p.keys[e.Key] = key
		r.keys++
	}
	key.add(denied)
}

// tooLarge reports whether the heap is too large. Dropped keys leave room for others, not a smaller
// heap, so that later only the number of keys counts.
func (r *recorder) tooLarge() bool {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Uint64() < r.maxLive {
		return false
	}
	r.maxLive, r.maxKeys = 1<<62, r.keys
	return true
}

// drop drops the keys of the lowest level of the sample.
func (r *recorder) drop(ctx context.Context) error {
	if r.sample == levels-1 {
		return nil
	}
	r.sample++
	for _, p := range r.policies {
		if len(p.plan.Key) == 0 {
			continue
		}
		for key := range p.keys {
			if levelOf(key) < r.sample {
				if _, err := r.Reset(ctx, p.script, key); err != nil {
					return err
				}
				delete(p.keys, key)
				r.keys--
			}
		}
	}
	return nil
}
