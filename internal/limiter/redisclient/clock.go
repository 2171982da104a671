// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// slowAnswer is a time between question and answer after which an answer may be too old to set the clock.
	slowAnswer = 500 * time.Millisecond
	// outdated is the age of the last answer from which on even a slow answer sets the clock.
	outdated = time.Minute
	// recent is the age of an answer up to which the clock asks for no other. It is shorter than monitorPeriod.
	recent = 900 * time.Millisecond
)

// Clock is the time of Redis, as this process knows it: the time in the last answer of Redis, and the time that has
// passed since then on the local clock. A local clock that is set to another time does not change it. Before the first
// answer it is the local clock. It is safe for concurrent use.
type Clock struct {
	local func() time.Time
	last  atomic.Pointer[clockReading]
}

// clockReading is the time in an answer of Redis.
type clockReading struct{ server, local time.Time }

// NewClock returns a Clock. local is the clock of this machine, with monotonic readings; nil is time.Now.
func NewClock(local func() time.Time) *Clock {
	if local == nil {
		local = time.Now //nolint:forbidigo // the default
	}
	return &Clock{local: local}
}

// Now returns the time of Redis.
func (c *Clock) Now() time.Time {
	now := c.local()
	if last := c.last.Load(); last != nil {
		return last.server.Add(now.Sub(last.local))
	}
	return now
}

// Local returns the time of the local clock, for Learn. A nil Clock has none.
func (c *Clock) Local() time.Time {
	if c == nil {
		return time.Time{}
	}
	return c.local()
}

// Learn sets the clock to the time in an answer of Redis, which has just arrived. asked is Local when the question was
// sent. A slow answer sets the clock only if there was no other for a minute. A nil Clock learns nothing.
func (c *Clock) Learn(server, asked time.Time) {
	if c == nil {
		return
	}
	now := c.local()
	if last := c.last.Load(); last != nil && now.Sub(asked) > slowAnswer && now.Sub(last.local) < outdated {
		return
	}
	c.last.Store(&clockReading{server: server, local: now})
}

// ask learns the time of a server, in a cluster any of them, unless there was a recent answer, as of heartbeats.
func (c *Clock) ask(ctx context.Context, client redis.UniversalClient) error {
	if last := c.last.Load(); last != nil && c.local().Sub(last.local) < recent {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	asked := c.Local()
	server, err := client.Time(ctx).Result()
	if err == nil {
		c.Learn(server, asked)
	}
	return err
}
