// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options configure a Store. All fields are required.
type Options struct {
	// Client must not retry by itself: a call may have written although its reply was lost.
	Client redis.UniversalClient
	// Prefix starts every key.
	Prefix string
	// Timeout is the longest that Redis may take to answer. A caller with an earlier deadline
	// waits until shortly before it.
	Timeout time.Duration
}

// Store decides calls in Redis. It is safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
	// route returns the node that has the key.
	route func(ctx context.Context, key Key) *node
	// spreads is true if the keys of a call may lie on several nodes.
	spreads bool
}

// NewStore returns a Store.
func NewStore(o Options) *Store {
	s := &Store{client: o.Client, prefix: o.Prefix + layoutVersion, timeout: o.Timeout}
	if client, ok := o.Client.(*redis.ClusterClient); ok {
		s.spreads, s.route = true, newClusterNodes(s, client).of
		return s
	}
	only := s.newNode()
	only.send, only.resend = s.send, s.send
	s.route = func(context.Context, Key) *node { return only }
	return s
}

func (s *Store) newNode() *node {
	n := newNode(s.timeout)
	n.probe = s.probe
	return n
}

// probe writes a key beside those of the key: what a node without memory, or one that has
// become a replica, rejects.
func (s *Store) probe(ctx context.Context, key Key) error {
	return s.client.Set(ctx, s.key(key, probeKey), "", probeLife).Err()
}

// probeLife is how long the key of a probe exists.
const probeLife = time.Second

// callerMargin is the part of the caller's deadline that is kept for sending the answer.
const callerMargin = 2 * time.Millisecond

// deadline returns when a call must be answered: after the timeout, or shortly before the
// deadline of the caller.
func (s *Store) deadline(ctx context.Context) time.Time {
	deadline := time.Now().Add(s.timeout) //nolint:forbidigo // deadlines of callers
	if callers, ok := ctx.Deadline(); ok && callers.Add(-callerMargin).Before(deadline) {
		return callers.Add(-callerMargin)
	}
	return deadline
}

// Evaluate decides the call. It shares a round trip with the calls for the same node that arrive
// at the same time. In a cluster a call with several keys takes two round trips. Errors are
// *StoreError; the call must then not be changed, because it may still be in flight.
func (s *Store) Evaluate(ctx context.Context, call *Call) (*Reply, error) {
	deadline := s.deadline(ctx)
	if s.spreads && !haveOneKey(call) {
		return s.evaluateSpread(ctx, call, deadline)
	}
	return s.evaluate(ctx, call, false, deadline)
}

// evaluate decides one call whose keys lie on one node.
func (s *Store) evaluate(ctx context.Context, call *Call, receipts bool, deadline time.Time) (*Reply, error) {
	return s.route(ctx, call.Entries[0].Key).decide(ctx, call, receipts, deadline)
}

// send decides the calls of a batch in one EVALSHA.
func (s *Store) send(ctx context.Context, batch []*pending) []outcome {
	c := s.decideCommand(batch)
	values, err := s.run(ctx, decideScripts, c)
	if err == nil && len(values) != len(batch) {
		err = &StoreError{Cause: CauseScript, Err: errReply}
	}
	if err != nil {
		return failAll(batch, err)
	}
	outcomes := make([]outcome, len(batch))
	for i, value := range values {
		outcomes[i] = outcomeOf(value)
	}
	return outcomes
}

// outcomeOf returns the outcome for what decide.lua returned for one call: a flat array, or the
// text of an error.
func outcomeOf(value any) outcome {
	if text, failed := value.(string); failed {
		return outcome{err: &StoreError{Cause: causeOfText(text), Err: errors.New(text)}}
	}
	return outcome{value: value}
}

// run sends the command with the script for its algorithms, and the source of the script if Redis
// does not have it.
func (s *Store) run(ctx context.Context, scripts *programs, c command) ([]any, *StoreError) {
	program := scripts[c.algorithms]()
	c.args[0], c.args[1] = "EVALSHA", program.sha
	reply, err := s.client.Do(ctx, c.args...).Slice()
	if err != nil && causeOf(ctx, err) == causeNoScript {
		c.args[0], c.args[1] = "EVAL", program.source
		reply, err = s.client.Do(ctx, c.args...).Slice()
	}
	if err != nil {
		return nil, &StoreError{Cause: causeOf(ctx, err), Err: err}
	}
	return reply, nil
}
