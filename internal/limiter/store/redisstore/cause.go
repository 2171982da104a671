// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// storeError returns the error of a command as a *store.Error, or nil.
func storeError(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return &store.Error{Cause: causeOf(ctx, err), Err: err}
}

// causeNoScript is the cause of an error after which the source of the script is sent.
const causeNoScript store.Cause = "noscript"

// causeOf returns the cause of an error of the client or of Redis.
func causeOf(ctx context.Context, err error) store.Cause {
	if answer, ok := errors.AsType[redis.Error](err); ok {
		return causeOfText(answer.Error())
	}
	timeout, isTimeout := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(ctx.Err(), context.Canceled):
		return store.CauseCanceled
	case errors.Is(err, context.DeadlineExceeded), isTimeout && timeout.Timeout():
		return store.CauseTimeout
	case strings.Contains(err.Error(), tooManyClients):
		return store.CauseClients // the client could not connect
	}
	return store.CauseConnection
}

// causes are the causes by the code of the error.
var causes = map[string]store.Cause{
	"NOSCRIPT":    causeNoScript,
	"LOADING":     store.CauseLoading,
	"MASTERDOWN":  store.CauseLoading,
	"READONLY":    store.CauseReadOnly,
	"MOVED":       store.CauseMoved,
	"ASK":         store.CauseMoved,
	"TRYAGAIN":    store.CauseMoved,
	"CLUSTERDOWN": store.CauseCluster,
	"OOM":         store.CauseMemory,
	"NOREPLICAS":  store.CauseReplicas,
	"MISCONF":     store.CausePersistence,
	"BUSY":        store.CauseBusy,
	"NOPERM":      store.CausePermission,
	"NOAUTH":      store.CauseAuth,
	"WRONGPASS":   store.CauseAuth,
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
func causeOfText(text string) store.Cause {
	text = redisclient.ReplyText(text)
	code, _, _ := strings.Cut(text, " ")
	if cause, found := causes[code]; found {
		return cause
	}
	switch {
	case strings.HasPrefix(text, tooManyClients):
		return store.CauseClients
	case strings.HasPrefix(text, unauthenticated):
		return store.CauseAuth
	}
	return store.CauseScript
}

// isRejected reports whether Redis rejected the call without running it, and may accept it within
// milliseconds, so that it is sent again and cannot spend twice. Other rejections last longer: a
// server with missing replicas or credentials, for example.
func isRejected(e *store.Error) bool {
	return e != nil && slices.Contains([]store.Cause{causeNoScript, store.CauseLoading, store.CauseReadOnly, store.CauseMoved, store.CauseBusy}, e.Cause)
}

// blamesNode reports whether the error means that the node cannot decide at present.
func blamesNode(e *store.Error) bool {
	return e != nil && slices.Contains([]store.Cause{
		store.CauseTimeout, store.CauseConnection, store.CauseLoading, store.CauseReadOnly, store.CauseCluster, store.CauseMemory, store.CauseReplicas,
		store.CausePersistence, store.CauseBusy, store.CausePermission, store.CauseAuth, store.CauseClients,
	}, e.Cause)
}
