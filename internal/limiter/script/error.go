// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Cause names the reason why Redis did not decide a call; it is the value of a metric label.
type Cause string

// The causes.
const (
	CauseTimeout    Cause = "timeout"
	CauseConnection Cause = "connection"
	CauseLoading    Cause = "loading"
	CauseReadOnly   Cause = "readonly"
	CauseMoved      Cause = "moved"   // the slot of the keys moves to another node
	CauseCluster    Cause = "cluster" // CLUSTERDOWN: no node serves the slot
	CauseMemory     Cause = "memory"
	CauseCanceled   Cause = "canceled" // the caller canceled the call
	CauseScript     Cause = "script"   // Redis or the script returned an error
	CauseBreaker    Cause = "breaker"  // no calls are sent to the node, because it failed
	CauseQueue      Cause = "queue"    // too many calls wait for the node

	causeNoScript Cause = "noscript"
)

// StoreError is a call that Redis did not decide, or whose reply was lost: its cost may
// have been spent.
type StoreError struct {
	Cause Cause
	Err   error
}

// Error implements error.
func (e *StoreError) Error() string { return fmt.Sprintf("redis (%s): %v", e.Cause, e.Err) }

// Unwrap returns the client's error.
func (e *StoreError) Unwrap() error { return e.Err }

func causeOf(ctx context.Context, err error) Cause {
	if answer, ok := errors.AsType[redis.Error](err); ok {
		return causeOfText(answer.Error())
	}
	timeout, isTimeout := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(ctx.Err(), context.Canceled):
		return CauseCanceled
	case errors.Is(err, context.DeadlineExceeded), isTimeout && timeout.Timeout():
		return CauseTimeout
	}
	return CauseConnection
}

// causeOfText returns the cause of an error that Redis returned, by its code.
func causeOfText(text string) Cause {
	code, _, _ := strings.Cut(text, " ")
	switch code {
	case "NOSCRIPT":
		return causeNoScript
	case "LOADING", "MASTERDOWN":
		return CauseLoading
	case "READONLY":
		return CauseReadOnly
	case "MOVED", "ASK", "TRYAGAIN":
		return CauseMoved
	case "CLUSTERDOWN":
		return CauseCluster
	case "OOM":
		return CauseMemory
	}
	return CauseScript
}

// rejected reports whether Redis rejected the call without running it, so that sending it again
// cannot spend twice.
func (e *StoreError) rejected() bool {
	return e != nil && slices.Contains([]Cause{causeNoScript, CauseLoading, CauseReadOnly, CauseMoved}, e.Cause)
}

// blamesNode reports whether the error means that the node cannot decide at present.
func (e *StoreError) blamesNode() bool {
	return e != nil && slices.Contains([]Cause{
		CauseTimeout, CauseConnection, CauseLoading, CauseReadOnly, CauseCluster, CauseMemory,
	}, e.Cause)
}
