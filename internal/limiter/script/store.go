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
	client redis.UniversalClient
	prefix string
	spread bool // the keys of a call may lie on several nodes
}

// NewStore returns a Store whose keys start with prefix. The client must not retry by
// itself: a call may have written although its reply was lost.
func NewStore(client redis.UniversalClient, prefix string) *Store {
	_, cluster := client.(*redis.ClusterClient)
	return &Store{client: client, prefix: prefix + layoutVersion, spread: cluster}
}

// Evaluate decides the call, in one EVALSHA unless its keys lie on several nodes
// of a Redis Cluster. Errors are *StoreError.
func (s *Store) Evaluate(ctx context.Context, call *Call) (*Reply, error) {
	if s.spread && !haveOneKey(call) {
		return s.evaluateSpread(ctx, call)
	}
	return s.evaluate(ctx, call, false)
}

// evaluate decides a call whose keys lie on one node.
func (s *Store) evaluate(ctx context.Context, call *Call, receipts bool) (*Reply, error) {
	values, err := s.run(ctx, decideScripts, s.decideCommand(call, receipts))
	if err != nil {
		return nil, err
	}
	return decodeReply(call, receipts, values)
}

// retryPause is the wait before a rejected command is sent again.
const retryPause = 2 * time.Millisecond

// run sends the command with the script for its algorithms. Until ctx ends, it sends the
// command again if Redis rejected it without running it: script not loaded, loading its
// data set, a replica, a slot that moves.
func (s *Store) run(ctx context.Context, main *programs, c command) ([]any, error) {
	program := main[c.algorithms]()
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

// command is an EVALSHA; run sets the first two arguments.
type command struct {
	args       []any
	algorithms uint
}

// newCommand returns a command with the keys of the entries.
func (s *Store) newCommand(entries []Entry) command {
	c := command{}
	capacity := 6
	for i := range entries {
		p := entries[i].Policy
		c.algorithms |= p.algorithms
		capacity += len(p.keys) + len(p.args) + 2
	}
	c.args = make([]any, 3, capacity)
	for i := range entries {
		for _, suffix := range entries[i].Policy.keys {
			c.args = append(c.args, s.key(entries[i].Key, suffix))
		}
	}
	c.args[2] = len(c.args) - 3
	return c
}

func (c *command) add(e *Entry) {
	flags := e.Policy.flags
	if e.Peek {
		flags |= flagPeek
	}
	if e.dryRun {
		flags |= flagDryRun
	}
	c.args = append(c.args, e.Cost, flags)
	c.args = append(c.args, e.Policy.args...)
}

// Flags of a call, as decide.lua reads them.
const (
	callDenied = 1 << iota
	callReceipts
)

func (s *Store) decideCommand(call *Call, receipts bool) command {
	flags := 0
	if call.Denied {
		flags |= callDenied
	}
	if receipts {
		flags |= callReceipts
	}
	c := s.newCommand(call.Entries)
	c.args = append(c.args, flags, call.Draw, len(call.Entries))
	for i := range call.Entries {
		c.add(&call.Entries[i])
	}
	return c
}

func (s *Store) key(key Key, suffix string) string {
	return s.prefix + "{" + string(key) + "}:" + suffix
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
