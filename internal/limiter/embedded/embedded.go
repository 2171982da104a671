// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package embedded runs a Redis inside the process, to try Weir without a server. Decisions
// are as exact as with Redis, but slower and for one process only, and all data is lost when
// the process ends.
package embedded

import (
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// tick is the resolution of the server's clock. Every tick visits all keys, so a finer clock
// would cost more than the decisions.
const tick = time.Millisecond

// Redis is a running embedded server.
type Redis struct {
	server  *miniredis.Miniredis
	stop    chan struct{}
	stopped chan struct{}
}

// Start starts a server on a free port of the loopback interface.
func Start() (*Redis, error) {
	return start(time.Now(), time.NewTicker(tick).C) //nolint:forbidigo // this is the clock
}

// start starts a server whose clock is now, and then the latest of ticks.
func start(now time.Time, ticks <-chan time.Time) (*Redis, error) {
	server := miniredis.NewMiniRedis()
	server.SetTime(now)
	server.ClockTTL(true)
	if err := server.Start(); err != nil {
		return nil, fmt.Errorf("start the embedded Redis: %w", err)
	}
	r := &Redis{server: server, stop: make(chan struct{}), stopped: make(chan struct{})}
	go r.run(ticks)
	return r, nil
}

// URL returns the Redis URL of the server.
func (r *Redis) URL() string { return "redis://" + r.server.Addr() }

// Close stops the server. It must be called once only.
func (r *Redis) Close() {
	close(r.stop)
	<-r.stopped
}

// run advances the server's clock, which TIME and expiry use.
func (r *Redis) run(ticks <-chan time.Time) {
	defer close(r.stopped)
	defer r.server.Close()
	for {
		select {
		case <-r.stop:
			return
		case now := <-ticks:
			r.server.SetTime(now)
		}
	}
}
