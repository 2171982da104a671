// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/test/clock"
)

// redisServer is a Redis server, or a master with a replica and sentinels.
type redisServer struct {
	*Process
	address  string
	clock    *clock.Clock
	client   *redis.Client
	sentinel *sentinels // nil without
}

var _ Store = (*redisServer)(nil)

// startRedis starts the store of a system.
func (e *Environment) startRedis(ctx context.Context, o Options) (*redisServer, error) {
	args := []string{"--save", "", "--appendonly", "no"}
	if o.Durable {
		args = []string{"--save", "", "--appendonly", "yes", "--appendfsync", "always"}
	}
	server, err := e.startRedisServer(ctx, args...)
	if err != nil || !o.Sentinel {
		return server, err
	}
	server.sentinel, err = e.startSentinels(ctx, server)
	return server, err
}

func (e *Environment) startRedisServer(ctx context.Context, args ...string) (*redisServer, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	folder, err := e.newFolder()
	if err != nil {
		return nil, err
	}
	moved, environment, err := e.newClock()
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1, DialTimeout: time.Second})
	e.onClose(client.Close)
	r := &redisServer{address: address, clock: moved, client: client, Process: &Process{
		program: "redis-server",
		args:    append([]string{"--bind", "127.0.0.1", "--port", portOf(address), "--dir", folder, "--loglevel", "warning"}, args...),
		env:     environment,
		ready:   func(ctx context.Context) error { return client.Ping(ctx).Err() },
	}}
	return r, e.startProcess(ctx, r.Process)
}

// url returns the address as Weir and Limitador take it.
func (r *redisServer) url() string {
	if r.sentinel != nil {
		return r.sentinel.url()
	}
	return "redis://" + r.address
}

// Restart implements Store.
func (r *redisServer) Restart(ctx context.Context) error {
	r.Kill()
	return r.Start(ctx)
}

// Failover implements Store.
func (r *redisServer) Failover(ctx context.Context) error {
	if r.sentinel == nil {
		return ErrUnsupported
	}
	r.Kill()
	return r.sentinel.await(ctx, "status=ok,address="+r.sentinel.replica.address)
}

// MoveClock implements Store.
func (r *redisServer) MoveClock(d time.Duration) error {
	r.clock.Move(d)
	return nil
}
