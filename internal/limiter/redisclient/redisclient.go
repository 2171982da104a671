// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redisclient makes the one Redis client of a process from its URL.
package redisclient

import (
	"context"
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

// New returns a client for a URL of one of these forms, which Files.New completes by
// what must not stand in a URL; with rediss in place of
// redis it speaks TLS:
//
//	redis://[user:password@]host[:port][/database]
//	redis-cluster://[user:password@]host[:port][?addr=host:port&addr=...]
//
// One address that answers is enough to find all nodes of a cluster. With TLS all
// of them need a certificate for the host of the URL.
//
// It does not connect: Redis may be away. The client never sends a command twice,
// because a command whose reply was lost may have been run. Only when a node of a
// cluster says that it did not run a command, because another one is to (MOVED,
// ASK) or because it is a replica (READONLY), is the command sent again. Every
// other reply and every failure is the caller's to judge. Every command is bounded
// by its context and by timeout.
func New(rawURL string, timeout time.Duration) (redis.UniversalClient, error) {
	return Files{}.New(rawURL, timeout)
}

func newSingle(parsed *url.URL, timeout time.Duration, files Files) (redis.UniversalClient, error) {
	options, err := redis.ParseURL(parsed.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", redacted(parsed), err)
	}
	options.CredentialsProviderContext = files.credentialsProvider()
	options.Dialer = files.dialer(options.TLSConfig)
	options.MaxRetries = -1
	options.DialerRetries = 1
	options.DialTimeout = dialTimeout
	options.ContextTimeoutEnabled = true
	options.ReadTimeout = timeout
	options.WriteTimeout = timeout
	options.Protocol = 2
	options.DisableIdentity = true
	options.MaintNotificationsConfig = withoutNotifications()
	return redis.NewClient(options), nil
}

func withoutNotifications() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// redacted is the URL without what may be secret.
func redacted(u *url.URL) string {
	public := *u
	public.RawQuery = ""
	return public.Redacted()
}
