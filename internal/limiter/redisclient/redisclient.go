// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redisclient makes the one Redis client of a process from its URL.
package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// dialTimeout bounds one attempt to connect. Connecting goes on behind the
// back of the decision that needed the connection first, so it may take longer
// than a decision does.
const dialTimeout = 2 * time.Second

func init() {
	// The library writes dial errors to standard error by itself. They reach the
	// logs through the decisions and watchers that fail, with a rate limit.
	redis.SetLogger(silence{})
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// New returns a client for a redis:// or rediss:// URL. It does not connect:
// Redis may be away. The client never sends a command twice, because a
// command whose reply was lost may have been run; every command is bounded by
// its context and by timeout.
func New(rawURL string, timeout time.Duration) (redis.UniversalClient, error) {
	parsed, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("not a URL") // the parser's error repeats the URL, password and all
	}
	switch parsed.Scheme {
	case "redis", "rediss":
	case "redis-sentinel", "redis-cluster":
		return nil, fmt.Errorf("scheme %s:// is not supported yet", parsed.Scheme)
	default:
		return nil, fmt.Errorf("scheme %q: want redis:// or rediss://", parsed.Scheme)
	}
	options, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", parsed.Redacted(), err)
	}
	options.MaxRetries = -1
	options.DialerRetries = 1
	options.DialTimeout = dialTimeout
	options.ContextTimeoutEnabled = true
	options.ReadTimeout = timeout
	options.WriteTimeout = timeout
	options.Protocol = 2
	options.DisableIdentity = true
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(options), nil
}
