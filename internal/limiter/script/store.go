// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Store decides calls in Redis.
type Store struct {
	client  redis.UniversalClient
	prefix  string
	cluster bool // the keys of a call may lie on several nodes

	batches batcher
}

// NewStore returns a Store whose keys start with prefix. The client must not retry by
// itself: a call may have written although its reply was lost.
func NewStore(client redis.UniversalClient, prefix string) *Store {
	_, cluster := client.(*redis.ClusterClient)
	s := &Store{client: client, prefix: prefix + layoutVersion, cluster: cluster}
	s.batches.send = s.evaluateBatch
	return s
}

// Evaluate decides the call. Outside a Redis Cluster it shares one EVALSHA with the calls
// that arrive at the same time. In a cluster it takes one EVALSHA for entries with one key,
// and two or three round trips for several keys. Errors are *StoreError.
func (s *Store) Evaluate(ctx context.Context, call *Call) (*Reply, error) {
	switch {
	case !s.cluster:
		return s.batches.do(ctx, call)
	case haveOneKey(call):
		return s.evaluate(ctx, call, false)
	default:
		return s.evaluateSpread(ctx, call)
	}
}

// evaluate decides one call whose keys lie on one node.
func (s *Store) evaluate(ctx context.Context, call *Call, receipts bool) (*Reply, error) {
	p := &pending{call: call, receipts: receipts}
	s.evaluateBatch(ctx, []*pending{p})
	return p.reply, p.err
}

// evaluateBatch decides the calls in one EVALSHA and sets their replies and errors.
func (s *Store) evaluateBatch(ctx context.Context, batch []*pending) {
	for {
		values, err := s.run(ctx, decideScripts, s.decideCommand(batch))
		if err == nil && len(values) != len(batch) {
			err = &StoreError{Cause: CauseScript, Err: errReply}
		}
		if err != nil {
			for _, p := range batch {
				p.err = err
			}
			return
		}
		// A read-only Redis rejects the first write of a call, which has then written nothing.
		var rejected []*pending
		for i, p := range batch {
			p.reply, p.err = decodeReply(p.call, p.receipts, values[i])
			if isReadOnly(p.err) {
				rejected = append(rejected, p)
			}
		}
		if len(rejected) == 0 || !sleep(ctx, retryPause) {
			return
		}
		batch = rejected
	}
}

// retryPause is the wait before a rejected command is sent again.
const retryPause = 2 * time.Millisecond

// run sends the command with the script for its algorithms. Until ctx ends, it sends the
// command again if Redis rejected it without running it: the script is not loaded, the
// server loads its data set or is a replica, or the slot is moving.
func (s *Store) run(ctx context.Context, scripts *programs, c command) ([]any, error) {
	program := scripts[c.algorithms]()
	c.args[0], c.args[1] = "EVALSHA", program.sha
	for {
		reply, err := s.client.Do(ctx, c.args...).Slice()
		if err == nil {
			return reply, nil
		}
		cause := causeOf(ctx, err)
		switch cause {
		case causeNoScript:
			c.args[0], c.args[1] = "EVAL", program.source
		case CauseLoading, CauseReadOnly, CauseMoved:
			if !sleep(ctx, retryPause) {
				return nil, &StoreError{Cause: cause, Err: err}
			}
		default:
			return nil, &StoreError{Cause: cause, Err: err}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
