// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxRedirects is the number of nodes in a row that may redirect a command: to the
	// new owner of a slot, and to the next one if the slot moves again.
	maxRedirects = 3

	// redirectPause and longestRedirectPause bound the wait before a command that a
	// replica rejected, or a part of a pipeline, is sent to another node. They must be
	// shorter than a decision.
	redirectPause        = time.Millisecond
	longestRedirectPause = 8 * time.Millisecond

	// reloadPause is the shortest time between two reloads of the slot map after
	// failures.
	reloadPause = 100 * time.Millisecond
)

func newCluster(parsed *url.URL, timeout time.Duration, files Files) (redis.UniversalClient, error) {
	options, err := parseCluster(parsed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", redacted(parsed), err)
	}
	overwrite(options, fixedOptions(files, newConnections(files, options.TLSConfig).dial, timeout))
	options.MaxRedirects = maxRedirects
	options.MinRetryBackoff = redirectPause
	options.MaxRetryBackoff = longestRedirectPause
	// Routing policies would split commands among nodes, and the first commands would
	// wait for a COMMAND that no context bounds.
	options.DisableRoutingPolicies = true
	options.ReadOnly = false
	options.RouteByLatency = false
	options.RouteRandomly = false
	client := redis.NewClusterClient(options)
	client.AddHook(&noRetry{client: client})
	HideReplies(client)
	return client, nil
}

// parseCluster parses the URL with the library, which supports only the schemes of a single
// server, and rejects parts of the URL that the library ignores.
func parseCluster(parsed *url.URL) (*redis.ClusterOptions, error) {
	if parsed.Path != "" && parsed.Path != "/" {
		return nil, errors.New("a cluster has no numbered databases")
	}
	if err := checkAddresses(parsed.Query()["addr"]); err != nil {
		return nil, err
	}
	single := *parsed
	single.Scheme = strings.TrimSuffix(parsed.Scheme, "-cluster")
	return redis.ParseClusterURL(single.String())
}

// noRetry is a hook that prevents the client of a cluster from retrying commands. By
// default the client does so after timeouts and broken connections, when the command may
// have run, and sends a whole pipeline again if its first command failed.
type noRetry struct {
	client   *redis.ClusterClient
	reloaded atomic.Bool // a reload began less than reloadPause ago
}

// noRetryCmd is a command that is not retried. The library still follows MOVED and ASK, and
// sends a command that a replica rejected to the master.
type noRetryCmd struct {
	redis.Cmder
}

// NoRetry implements redis.Cmder.
func (noRetryCmd) NoRetry() bool { return true }

// DialHook implements redis.Hook.
func (*noRetry) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (n *noRetry) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, noRetryCmd{cmd})
		n.reloadAfter(ctx, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (n *noRetry) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		wrapped := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			wrapped[i] = noRetryCmd{cmd}
		}
		err := next(ctx, wrapped)
		for _, cmd := range cmds {
			n.reloadAfter(ctx, cmd.Err())
		}
		return err
	}
}

// reloadAfter reloads the slot map in the background if the error means that it may have
// changed. The library itself reloads it only after a redirect, which a lost node never
// sends, and once a minute.
func (n *noRetry) reloadAfter(ctx context.Context, err error) {
	if !ownerMayHaveChanged(err) || !n.reloaded.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(reloadPause, func() { n.reloaded.Store(false) })
	n.client.ReloadState(ctx)
}

// ownerMayHaveChanged reports whether after this error another node may own the slot.
func ownerMayHaveChanged(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if _, isReply := errors.AsType[redis.Error](err); !isReply {
		return true
	}
	return redis.IsClusterDownError(err) || redis.IsLoadingError(err) || redis.IsMasterDownError(err)
}
