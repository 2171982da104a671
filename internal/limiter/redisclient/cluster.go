// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxRedirects is how many nodes in a row may send a command elsewhere: to the
	// new owner of a slot and, if that gives it away in turn, on from there.
	maxRedirects = 3

	// redirectPause and longestRedirectPause bound the wait before a command that a
	// replica turned away, or a part of a pipeline, goes to another node. They must
	// fit into the time of a decision.
	redirectPause        = time.Millisecond
	longestRedirectPause = 8 * time.Millisecond

	// reloadPause is the least time between two looks at who serves what that
	// failures give rise to.
	reloadPause = 100 * time.Millisecond
)

func newCluster(parsed *url.URL, timeout time.Duration, files Files) (redis.UniversalClient, error) {
	options, err := parseCluster(parsed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", redacted(parsed), err)
	}
	options.CredentialsProviderContext = files.credentialsProvider()
	options.Dialer = files.dialer(options.TLSConfig)
	options.MaxRedirects = maxRedirects
	options.MinRetryBackoff = redirectPause
	options.MaxRetryBackoff = longestRedirectPause
	options.MaxRetries = -1
	options.DialerRetries = 1
	options.DialTimeout = dialTimeout
	options.ContextTimeoutEnabled = true
	options.ReadTimeout = timeout
	options.WriteTimeout = timeout
	options.Protocol = 2
	options.DisableIdentity = true
	options.MaintNotificationsConfig = withoutNotifications()
	// Policies would split commands among nodes, and have the first ones wait for a
	// COMMAND that no context bounds.
	options.DisableRoutingPolicies = true
	options.ReadOnly = false
	options.RouteByLatency = false
	options.RouteRandomly = false
	client := redis.NewClusterClient(options)
	client.AddHook(&once{client: client})
	return client, nil
}

// parseCluster leaves the URL to the library, which knows the schemes of a single
// server only, and refuses what it would pass over.
func parseCluster(parsed *url.URL) (*redis.ClusterOptions, error) {
	if parsed.Path != "" && parsed.Path != "/" {
		return nil, errors.New("a cluster has no databases to choose from")
	}
	for _, addr := range parsed.Query()["addr"] {
		// What is wrong with it is not repeated: it may have a password in it.
		if _, _, err := net.SplitHostPort(addr); err != nil || strings.Contains(addr, "@") {
			return nil, errors.New("addr: want host:port")
		}
	}
	single := *parsed
	single.Scheme = strings.TrimSuffix(parsed.Scheme, "-cluster")
	return redis.ParseClusterURL(single.String())
}

// once keeps the client of a cluster from sending commands again by itself. By
// default it does so after timeouts and broken connections, when the command may
// have been run, and sends a whole pipeline again if its first command failed.
type once struct {
	client  *redis.ClusterClient
	resting atomic.Bool // a reload was begun less than reloadPause ago
}

// final is a command that is not sent again. The library still follows MOVED and
// ASK, and takes a command from a replica to the master.
type final struct {
	redis.Cmder
}

// NoRetry implements redis.Cmder.
func (final) NoRetry() bool { return true }

// DialHook implements redis.Hook.
func (*once) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (o *once) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, final{cmd})
		o.heed(ctx, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (o *once) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		finals := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			finals[i] = final{cmd}
		}
		err := next(ctx, finals)
		for _, cmd := range cmds {
			o.heed(ctx, cmd.Err())
		}
		return err
	}
}

// heed has the client ask anew who serves what, in the background, if the error
// says that this may have changed. The library does so by itself only when a node
// sends a command elsewhere, which one that is gone never does, and once a minute.
func (o *once) heed(ctx context.Context, err error) {
	if !doubtsOwner(err) || !o.resting.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(reloadPause, func() { o.resting.Store(false) })
	o.client.ReloadState(ctx)
}

// doubtsOwner reports whether after this error another node may serve the slot.
func doubtsOwner(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if _, isReply := errors.AsType[redis.Error](err); !isReply {
		return true
	}
	return redis.IsClusterDownError(err) || redis.IsLoadingError(err) || redis.IsMasterDownError(err)
}
