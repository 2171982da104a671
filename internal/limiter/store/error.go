// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import "fmt"

// Cause names the reason why Redis did not decide a call; it is the value of a metric label.
type Cause string

// The causes.
const (
	CauseTimeout     Cause = "timeout"
	CauseDeadline    Cause = "deadline" // the caller's deadline passed before the one of Redis
	CauseConnection  Cause = "connection"
	CauseLoading     Cause = "loading"
	CauseReadOnly    Cause = "read_only"
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
	CauseExpressions Cause = "expressions" // the expressions of the policies take too long; not from Redis
)

// Error is a call that Redis did not decide, or whose reply was lost: its cost may
// have been spent.
type Error struct {
	Cause Cause
	Err   error
	// Unwritten is true if the script ended the call with an error before it wrote anything, so that
	// parts of the call may be decided by other calls.
	Unwritten bool
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("redis (%s): %v", e.Cause, e.Err) }

// Unwrap returns the client's error.
func (e *Error) Unwrap() error { return e.Err }
