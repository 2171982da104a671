// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/quota"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
)

// storeError returns the error of a command as a *StoreError, or nil.
func storeError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return &quota.StoreError{Cause: causeOf(ctx, err), Err: err}
}

// causeNoScript is the cause of an error after which the source of the script is sent.
const causeNoScript quota.Cause = "noscript"

// causeOf returns the cause of an error of the client or of Redis.
func causeOf(ctx context.Context, err error) quota.Cause {
	if answer, ok := errors.AsType[redis.Error](err); ok {
		return causeOfText(answer.Error())
	}
	timeout, isTimeout := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(ctx.Err(), context.Canceled):
		return quota.CauseCanceled
	case errors.Is(err, context.DeadlineExceeded), isTimeout && timeout.Timeout():
		return quota.CauseTimeout
	case strings.Contains(err.Error(), tooManyClients):
		return quota.CauseClients // the client could not connect
	}
	return quota.CauseConnection
}

// causes are the causes by the code of the error.
var causes = map[string]quota.Cause{
	"NOSCRIPT":    causeNoScript,
	"LOADING":     quota.CauseLoading,
	"MASTERDOWN":  quota.CauseLoading,
	"READONLY":    quota.CauseReadOnly,
	"MOVED":       quota.CauseMoved,
	"ASK":         quota.CauseMoved,
	"TRYAGAIN":    quota.CauseMoved,
	"CLUSTERDOWN": quota.CauseCluster,
	"OOM":         quota.CauseMemory,
	"NOREPLICAS":  quota.CauseReplicas,
	"MISCONF":     quota.CausePersistence,
	"BUSY":        quota.CauseBusy,
	"NOPERM":      quota.CausePermission,
	"NOAUTH":      quota.CauseAuth,
	"WRONGPASS":   quota.CauseAuth,
}

// Errors without a code of their own.
const (
	// tooManyClients is the error of a server that has reached maxclients.
	tooManyClients = "ERR max number of clients reached"
	// unauthenticated starts the error of a command that is too long for a client without
	// credentials.
	unauthenticated = "ERR Protocol error: unauthenticated"
)

// causeOfText returns the cause of an error that Redis returned, for the text of Redis and for the shorter text of redisclient.ReplyText.
func causeOfText(text string) quota.Cause {
	text = redisclient.ReplyText(text)
	code, _, _ := strings.Cut(text, " ")
	if cause, found := causes[code]; found {
		return cause
	}
	switch {
	case strings.HasPrefix(text, tooManyClients):
		return quota.CauseClients
	case strings.HasPrefix(text, unauthenticated):
		return quota.CauseAuth
	}
	return quota.CauseScript
}

// isRejected reports whether Redis rejected the call without running it, and may accept it within
// milliseconds, so that it is sent again and cannot spend twice. Other rejections last longer: a
// server with missing replicas or credentials, for example.
func isRejected(e *quota.StoreError) bool {
	return e != nil && slices.Contains([]quota.Cause{causeNoScript, quota.CauseLoading, quota.CauseReadOnly, quota.CauseMoved, quota.CauseBusy}, e.Cause)
}

// blamesNode reports whether the error means that the node cannot decide at present.
func blamesNode(e *quota.StoreError) bool {
	return e != nil && slices.Contains([]quota.Cause{
		quota.CauseTimeout, quota.CauseConnection, quota.CauseLoading, quota.CauseReadOnly, quota.CauseCluster, quota.CauseMemory, quota.CauseReplicas,
		quota.CausePersistence, quota.CauseBusy, quota.CausePermission, quota.CauseAuth, quota.CauseClients,
	}, e.Cause)
}
