// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// Options configure a Store. All fields but Registerer, Logger and Now are required.
type Options struct {
	// Client must not retry by itself: a call may have written although its reply was lost.
	Client redis.UniversalClient
	// Prefix starts every key.
	Prefix string
	// Timeout is the longest that Redis may take to answer. A caller with an earlier deadline
	// waits until shortly before it.
	Timeout time.Duration
	// MaxSends bounds how often a call is sent that a node rejects without running it, while its slot moves; 0 is
	// DefaultMaxSends. The pauses between them double, from 2 ms on.
	MaxSends int
	// Registerer registers the metrics; nil does not export them.
	Registerer prometheus.Registerer
	// Logger is slog.Default() if nil.
	Logger *slog.Logger
	// Now is the clock of this process, for the periods of calendars; nil is time.Now.
	Now func() time.Time
}

// Store decides calls in Redis. It is safe for concurrent use.
type Store struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
	sends   int
	now     func() time.Time
	metrics *metrics
	repairs *repairs
	// route returns the node that has the key.
	route func(ctx context.Context, key store.Key) *node
	// isCluster is true if the keys of a call may lie on several nodes.
	isCluster bool
	// atomicLimits and groupLimits are maxAtomicLimits and maxGroupLimits; tests have smaller ones.
	atomicLimits, groupLimits int
}

// NewStore returns a Store.
func NewStore(o Options) *Store {
	s := &Store{
		client: o.Client, prefix: o.Prefix + layoutVersion, timeout: o.Timeout, sends: cmp.Or(o.MaxSends, DefaultMaxSends), now: o.Now,
		metrics: newMetrics(), repairs: newRepairs(cmp.Or(o.Logger, slog.Default())),
		atomicLimits: maxAtomicLimits, groupLimits: maxGroupLimits,
	}
	if s.now == nil {
		s.now = time.Now //nolint:forbidigo // the default
	}
	if client, ok := o.Client.(*redis.ClusterClient); ok {
		nodes := newClusterNodes(s, client)
		s.isCluster, s.route, s.metrics.nodes = true, nodes.of, nodes.recent
	} else {
		name := nameOf(o.Client)
		only := s.newNode(name, s.send, s.send)
		s.route = func(context.Context, store.Key) *node { return only }
		s.metrics.nodes = func() map[string]*node { return map[string]*node{name: only} }
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(s.metrics, s.repairs.total)
	}
	return s
}

// nameOf returns the name of the only node of a client in metrics: its address, or the name of the master
// that sentinels watch, which package redisclient sets as the address.
func nameOf(client redis.UniversalClient) string {
	if single, ok := client.(*redis.Client); ok {
		return single.Options().Addr
	}
	return unknown
}

// newNode returns a node with that name in metrics.
func (s *Store) newNode(name string, send, resend sender) *node {
	n := newNode(s.timeout, s.sends, s.metrics.ofNode(name))
	n.send, n.resend, n.probe = send, resend, s.probe
	return n
}

// Evaluate decides the call. Errors are *store.Error; the call must then not be changed, because it may still be
// in flight.
//
//   - It shares a round trip with the calls for the same node that arrive at the same time.
//   - A call with more than maxAtomicLimits limits, and in a cluster one with several keys, takes more round
//     trips, see spread.go.
//   - A call with a key or a limit that needs a substitute, see Entry.OnlyKnown and Policy.NewRequested, is sent
//     again, at most twice for each entry.
func (s *Store) Evaluate(ctx context.Context, call *store.Call) (*store.Reply, error) {
	deadline := s.deadline(ctx)
	if s.mustSpread(call) {
		return s.newSpread(call, deadline).evaluate(ctx)
	}
	decided, err := s.evaluateAtomic(ctx, call, mode{}, deadline)
	if err != nil || decided.undecided == nil {
		return decided.Reply, err
	}
	return s.newSpread(call, deadline).substitute(ctx, decided.undecided)
}

const (
	// maxAtomicLimits bounds the limits of several policies that one script call decides. A call with more is spread.
	maxAtomicLimits = 64
	// maxGroupLimits bounds the limits of a group that has several policies. Redis does nothing else while it
	// decides them, some 0.2 ms.
	maxGroupLimits = 24
)

// mustSpread reports whether the call needs several script calls, or may need them once it has substitutes: in a cluster
// a substitute of a call that is never denied may lie on another node.
func (s *Store) mustSpread(call *store.Call) bool {
	if s.isCluster && !call.IsDeniable() {
		return true
	}
	limits := 0
	for i := range call.Entries {
		limits += len(call.Entries[i].Policy.Limits())
		if i > 0 && limits > s.atomicLimits || s.isCluster && call.Entries[i].Key != call.Entries[0].Key {
			return true
		}
	}
	return false
}

// evaluateAtomic evaluates the call in one script call, so its keys must lie on one node. It returns before the deadline
// even if the node does not answer; the cost of the call may then be spent.
func (s *Store) evaluateAtomic(ctx context.Context, call *store.Call, m mode, deadline time.Time) (result, error) {
	decided, err := s.route(ctx, call.Entries[0].Key).decideCall(ctx, newPending(ctx, call, m, deadline))
	if err == nil {
		s.repairs.report(call, decided.repaired)
	}
	return decided, err
}

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

// bound returns a context that ends at the deadline of a call that starts now.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, s.deadline(ctx))
}

// send decides the calls of a batch in one EVALSHA.
func (s *Store) send(ctx context.Context, batch []*pending) []outcome {
	values, err := s.execute(ctx, s.decideCommand(batch))
	return outcomesOf(ctx, batch, values, err)
}

// outcomesOf returns the outcomes of the calls of a batch, from the values that batch.lua returned for them or the
// error of the command.
func outcomesOf(ctx context.Context, batch []*pending, values []any, err error) []outcome {
	if err != nil {
		return failAll(len(batch), &store.Error{Cause: causeOf(ctx, err), Err: err})
	}
	outcomes := make([]outcome, len(batch))
	for i, p := range batch {
		var reply []any
		if reply, values = nextValues(p.call, values); len(reply) == 0 {
			return failAll(len(batch), &store.Error{Cause: store.CauseScript, Err: errReply})
		}
		outcomes[i] = outcomeOf(reply)
	}
	if len(values) > 0 {
		return failAll(len(batch), &store.Error{Cause: store.CauseScript, Err: errReply})
	}
	return outcomes
}

// outcomeOf returns the outcome of one call from its values: a text is an error.
func outcomeOf(values []any) outcome {
	if text, failed := values[0].(string); failed {
		text, unwritten := strings.CutPrefix(text, unwrittenMark)
		return outcome{err: &store.Error{Cause: causeOfText(text), Err: errors.New(redisclient.ReplyText(text)), Unwritten: unwritten}}
	}
	return outcome{values: values}
}

// execute sends the command, and the source of its script if Redis does not have it.
func (s *Store) execute(ctx context.Context, c command) ([]any, error) {
	reply, err := s.client.Do(ctx, c.args...).Slice()
	if err != nil && causeOf(ctx, err) == causeNoScript {
		c.args[0], c.args[1] = "EVAL", c.program.source
		reply, err = s.client.Do(ctx, c.args...).Slice()
	}
	return reply, err
}

// probeLife is how long the key of a probe exists.
const probeLife = time.Second

// probeScript is a write in a script, like a call.
var probeScript = redis.NewScript(`return redis.call("SET", KEYS[1], "", "PX", ARGV[1])`)

// probe writes a key to the node of the given key, in a script. A node that has become a replica, has no memory or
// forbids scripts rejects it.
func (s *Store) probe(ctx context.Context, key store.Key) error {
	return probeScript.Run(ctx, s.client, []string{s.key(key, probeKey)}, probeLife.Milliseconds()).Err()
}
