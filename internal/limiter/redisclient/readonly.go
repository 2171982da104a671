// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
)

// dropReadOnly is a hook that closes the connections of a client after a READONLY reply: their
// server has become a replica, and new connections find the master through DNS or the
// sentinels. The library closes only one connection, and only if the whole reply is that
// error; a script may return it in an array.
type dropReadOnly struct{ connections *connections }

// DialHook implements redis.Hook.
func (dropReadOnly) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (d dropReadOnly) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		generation := d.connections.generation.Load()
		err := next(ctx, cmd)
		if isReadOnly(cmd, err) {
			d.connections.closeUpTo(generation)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (d dropReadOnly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		generation := d.connections.generation.Load()
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if isReadOnly(cmd, cmd.Err()) {
				d.connections.closeUpTo(generation)
				break
			}
		}
		return err
	}
}

// isReadOnly reports whether the reply is a READONLY error or an array with one.
func isReadOnly(cmd redis.Cmder, err error) bool {
	if err != nil {
		return redis.IsReadOnlyError(err)
	}
	generic, ok := cmd.(*redis.Cmd)
	if !ok {
		return false
	}
	values, _ := generic.Val().([]any)
	for _, value := range values {
		// Servers before Redis 7.0 put the place in the script before the code.
		if text, ok := value.(string); ok && (strings.HasPrefix(text, "READONLY ") || strings.Contains(text, " -READONLY ")) {
			return true
		}
	}
	return false
}
