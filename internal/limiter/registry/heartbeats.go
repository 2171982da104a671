// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// clockMargin is the time by which the clock of Redis may fall behind the local one from one heartbeat to the next.
const clockMargin = 10 * time.Millisecond

// heartbeats sends the heartbeats of one process. As long as nothing changes in the registry they are plain commands in one
// round trip, which take Redis a fraction of the time of the script. Only the script reads everything at one instant,
// so it follows as soon as the commands find a change.
type heartbeats struct {
	scripts *scripts
	seen    header    // the last one received
	at      time.Time // when that was; zero if the next heartbeat must be the script
}

// saw records the header in an answer that has just been received.
func (b *heartbeats) saw(h *header) {
	b.seen, b.at = *h, time.Now() //nolint:forbidigo // the age of an answer
}

// send reports the process as alive, and returns the state of the registry and others.
func (b *heartbeats) send(ctx context.Context, r *heartbeat) (header, others, error) {
	if !b.at.IsZero() {
		h, o, same, err := b.sendPlain(ctx, r)
		if same {
			b.saw(&h)
			return h, o, nil
		}
		b.at = time.Time{}
		if _, isReply := errors.AsType[redis.Error](err); err != nil && !isReply {
			return h, o, err // the script would get no answer either
		}
	}
	h, o, err := b.scripts.heartbeat(ctx, r)
	if err == nil {
		b.saw(&h)
	}
	return h, o, err
}

// sendPlain does the same by plain commands. It returns whether the registry and the term are the same as before, and the report
// is valid; if not, the header may mix two states.
func (b *heartbeats) sendPlain(ctx context.Context, r *heartbeat) (h header, o others, same bool, err error) {
	encoded, err := r.encode()
	if err != nil {
		return h, o, false, err
	}
	// At least so late it is in Redis, since the last answer took some time to arrive.
	reported := b.seen.now + (time.Since(b.at) - clockMargin).Microseconds()
	value := strconv.FormatInt(reported+lifetime.Microseconds(), 10) + " " + string(encoded)
	leader := (&heartbeat{Owner: b.seen.owner, Kind: kindLeader, Name: b.seen.holder}).field()
	asked := b.scripts.clock.Local()
	p, err := b.scripts.beatPlain(ctx, r.field(), value, leader)
	if err != nil {
		return h, o, false, err
	}
	h = p.header()
	b.scripts.clock.Learn(time.UnixMicro(h.now), asked)
	if report, isAlive := parseReport(p.leader.Val(), h.now); isAlive {
		o.leader = decodeHeartbeat(leader, report)
	}
	o.processes = int(p.processes.Val())
	return h, o, b.isSame(h) && isCurrent(reported, h.now), nil
}

// isSame reports whether the header differs from the last one in nothing but the time.
func (b *heartbeats) isSame(h header) bool {
	h.now = b.seen.now
	return reflect.DeepEqual(h, b.seen)
}

// isCurrent reports whether a report of that time is valid for most of its lifetime. It is not if the clock of Redis was set: a report
// from the future counts as expired.
func isCurrent(reported, now int64) bool {
	return reported <= now && reported > now-period.Microseconds()
}

// plainHeartbeat is the replies to a heartbeat in plain commands.
type plainHeartbeat struct {
	meta, term       *redis.SliceCmd
	plans, processes *redis.IntCmd
	now              *redis.TimeCmd
	leader           *redis.StringCmd
}

// beatPlain stores the report under the field, and reads what heartbeat.lua does.
func (s *scripts) beatPlain(ctx context.Context, field, value, leader string) (p plainHeartbeat, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	server, err := s.server(ctx)
	if err != nil {
		return p, err
	}
	_, err = server.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		pipeline.HSet(ctx, s.processesKey(), field, value)
		p.now = pipeline.Time(ctx)
		p.meta = pipeline.HMGet(ctx, s.metaKey(), "epoch", "revision", "digest", "count", "published", "layout")
		p.plans = pipeline.HLen(ctx, s.plansKey())
		p.term = pipeline.HMGet(ctx, s.termKey(), "term", "holder", "owner")
		p.processes = pipeline.HLen(ctx, s.processesKey())
		p.leader = pipeline.HGet(ctx, s.processesKey(), leader)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // no leader
		return p, fmt.Errorf("redis: %w", err)
	}
	return p, nil
}

// server returns the server that holds the keys. Unlike the client of a Cluster it sends TIME to no other one.
func (s *scripts) server(ctx context.Context) (redis.Cmdable, error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return s.client, nil
	}
	master, err := cluster.MasterForKey(ctx, s.processesKey())
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return master, nil
}

// header returns the state as heartbeat.lua does.
func (p *plainHeartbeat) header() (h header) {
	text := func(fields *redis.SliceCmd, i int) string {
		value, _ := fields.Val()[i].(string)
		return value
	}
	number := func(fields *redis.SliceCmd, i int) int64 {
		n, _ := strconv.ParseInt(text(fields, i), 10, 64)
		return n
	}
	h.epoch, h.revision, h.digest = epoch(text(p.meta, 0)), number(p.meta, 1), text(p.meta, 2)
	h.complete = h.epoch != "" && strconv.FormatInt(p.plans.Val(), 10) == text(p.meta, 3)
	h.published, h.layout = number(p.meta, 4), number(p.meta, 5)
	h.term, h.holder, h.owner = number(p.term, 0), text(p.term, 1), text(p.term, 2)
	h.now = p.now.Val().UnixMicro()
	return h
}
