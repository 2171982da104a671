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
	CauseTimeout     Cause = "timeout"
	CauseDeadline    Cause = "deadline" // the caller's deadline passed before the one of Redis
	CauseConnection  Cause = "connection"
	CauseLoading     Cause = "loading"
	CauseReadOnly    Cause = "readonly"
	CauseMoved       Cause = "moved"   // the slot of the keys moves to another node
	CauseCluster     Cause = "cluster" // CLUSTERDOWN: no node serves the slot
	CauseMemory      Cause = "memory"
	CauseReplicas    Cause = "replicas"    // NOREPLICAS: fewer replicas than min-replicas-to-write
	CausePersistence Cause = "persistence" // MISCONF: Redis cannot write its data to disk
	CauseBusy        Cause = "busy"        // BUSY: another client's script or module runs too long
	CausePermission  Cause = "permission"  // NOPERM: the ACL forbids a command, a key or a channel
	CauseAuth        Cause = "auth"        // NOAUTH, WRONGPASS: the credentials are missing or wrong
	CauseClients     Cause = "clients"     // Redis has reached maxclients
	CauseCanceled    Cause = "canceled"    // the caller canceled the call
	CauseScript      Cause = "script"      // Redis or the script returned another error
	CauseBreaker     Cause = "breaker"     // no calls are sent to the node, because it failed
	CauseQueue       Cause = "queue"       // too many calls wait for the node
	CauseChain       Cause = "chain"       // more policies match than one call may have; not from Redis

	causeNoScript Cause = "noscript"
)

// StoreError is a call that Redis did not decide, or whose reply was lost: its cost may
// have been spent.
type StoreError struct {
	Cause Cause
	Err   error
	// Unwritten is true if the script ended the call with an error before it wrote anything, so that
	// parts of the call may be decided by other calls.
	Unwritten bool
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
	case strings.Contains(err.Error(), tooManyClients):
		return CauseClients // the client could not connect
	}
	return CauseConnection
}

// causes are the causes by the code of the error.
var causes = map[string]Cause{
	"NOSCRIPT":    causeNoScript,
	"LOADING":     CauseLoading,
	"MASTERDOWN":  CauseLoading,
	"READONLY":    CauseReadOnly,
	"MOVED":       CauseMoved,
	"ASK":         CauseMoved,
	"TRYAGAIN":    CauseMoved,
	"CLUSTERDOWN": CauseCluster,
	"OOM":         CauseMemory,
	"NOREPLICAS":  CauseReplicas,
	"MISCONF":     CausePersistence,
	"BUSY":        CauseBusy,
	"NOPERM":      CausePermission,
	"NOAUTH":      CauseAuth,
	"WRONGPASS":   CauseAuth,
}

// Errors without a code of their own.
const (
	// tooManyClients is the error of a server that has reached maxclients.
	tooManyClients = "ERR max number of clients reached"
	// unauthenticated starts the error of a command that is too long for a client without
	// credentials.
	unauthenticated = "ERR Protocol error: unauthenticated "
)

// causeOfText returns the cause of an error that Redis returned.
func causeOfText(text string) Cause {
	if cause, found := causes[codeOf(text)]; found {
		return cause
	}
	switch {
	case strings.HasPrefix(text, tooManyClients):
		return CauseClients
	case strings.HasPrefix(text, unauthenticated):
		return CauseAuth
	}
	return CauseScript
}

// codeOf returns the code of an error: its first word. Redis 6.2 puts the position in the
// script before it, and a description if the script did not catch the error:
//
//	@user_script: 12: -READONLY You can't write against a read only replica.
//	ERR Error running script (call to f_...): @user_script:1: @user_script: 12: -READONLY You can't ...
func codeOf(text string) string {
	if strings.HasPrefix(text, "@user_script") || strings.HasPrefix(text, "ERR Error running script") {
		if _, inner, found := strings.Cut(text, ": -"); found {
			text = inner
		}
	}
	code, _, _ := strings.Cut(text, " ")
	return code
}

// rejected reports whether Redis rejected the call without running it, and may accept it within
// milliseconds, so that it is sent again and cannot spend twice. Other rejections last longer: a
// server with missing replicas or credentials, for example.
func (e *StoreError) rejected() bool {
	return e != nil && slices.Contains([]Cause{causeNoScript, CauseLoading, CauseReadOnly, CauseMoved, CauseBusy}, e.Cause)
}

// blamesNode reports whether the error means that the node cannot decide at present.
func (e *StoreError) blamesNode() bool {
	return e != nil && slices.Contains([]Cause{
		CauseTimeout, CauseConnection, CauseLoading, CauseReadOnly, CauseCluster, CauseMemory, CauseReplicas,
		CausePersistence, CauseBusy, CausePermission, CauseAuth, CauseClients,
	}, e.Cause)
}
