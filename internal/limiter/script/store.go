// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name Redis gives a script, not a safeguard
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed *.lua
var sources embed.FS

// files of each algorithm, by Algorithm.
var files = map[Algorithm]string{
	FixedWindow: "fixed_window.lua",
	SlidingLog:  "sliding_log.lua",
}

// program is one assembled script.
type program struct {
	source string
	sha    string
}

// programs holds every combination of algorithms, assembled on first use.
var programs [1 << len(algorithms)]func() program

func init() {
	for set := range programs {
		programs[set] = sync.OnceValue(func() program { return assemble(uint(set)) })
	}
}

func assemble(set uint) program {
	names := []string{"prelude.lua"}
	for _, a := range algorithms {
		if set&a.bit() != 0 {
			names = append(names, files[a])
		}
	}
	var source strings.Builder
	for _, name := range append(names, "decide.lua") {
		text, err := sources.ReadFile(name)
		if err != nil {
			panic(err) // embedded: cannot be missing
		}
		source.Write(text)
	}
	sum := sha1.Sum([]byte(source.String())) //nolint:gosec // see the import
	return program{source: source.String(), sha: hex.EncodeToString(sum[:])}
}

// Store decides in Redis.
type Store struct {
	client redis.UniversalClient
	prefix string
}

// NewStore returns a Store that keeps its keys under prefix. The client must
// not retry by itself: a call may have written although its reply was lost.
func NewStore(client redis.UniversalClient, prefix string) *Store {
	return &Store{client: client, prefix: prefix + layoutVersion}
}

// retryPause is the wait before a call that Redis turned away is sent again.
const retryPause = 2 * time.Millisecond

// Evaluate decides the call in one EVALSHA. It is sent a second time only
// when Redis said that it did not run it (script not loaded, loading data
// set, replica), and only until ctx ends. Errors are *StoreError.
func (s *Store) Evaluate(ctx context.Context, call *Call) (*Reply, error) {
	args, script := s.command(call)
	for {
		reply, err := s.client.Do(ctx, args...).Slice()
		if err == nil {
			return decodeReply(call, reply)
		}
		cause := causeOf(ctx, err)
		switch cause {
		case causeNoScript:
			args[0], args[1] = "EVAL", script.source
		case CauseLoading, CauseReadOnly:
			if !sleep(ctx, retryPause) {
				return nil, &StoreError{Cause: cause, Err: err}
			}
		default:
			return nil, &StoreError{Cause: cause, Err: err}
		}
	}
}

// command returns the EVALSHA of the call.
func (s *Store) command(call *Call) ([]any, program) {
	var set uint
	keys, args := 0, 2
	for i := range call.Entries {
		p := call.Entries[i].Policy
		set |= p.algorithms
		keys += len(p.keys)
		args += len(p.args) + 2
	}
	script := programs[set]()
	cmd := make([]any, 3, 3+keys+args)
	for i := range call.Entries {
		e := &call.Entries[i]
		for _, suffix := range e.Policy.keys {
			cmd = append(cmd, s.key(e.Key, suffix))
		}
	}
	cmd[0], cmd[1], cmd[2] = "EVALSHA", script.sha, len(cmd)-3
	refused := 0
	if call.Refused {
		refused = 1
	}
	cmd = append(cmd, refused, len(call.Entries))
	for i := range call.Entries {
		e := &call.Entries[i]
		flags := e.Policy.flags
		if e.Peek {
			flags |= flagPeek
		}
		cmd = append(cmd, e.Cost, flags)
		cmd = append(cmd, e.Policy.args...)
	}
	return cmd, script
}

func (s *Store) key(key Key, suffix string) string {
	return s.prefix + "{" + string(key) + "}:" + suffix
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Cause says why Redis did not decide; it is a metric label.
type Cause string

// The causes.
const (
	CauseTimeout    Cause = "timeout"
	CauseConnection Cause = "connection"
	CauseLoading    Cause = "loading"
	CauseReadOnly   Cause = "readonly"
	CauseMemory     Cause = "memory"
	CauseCanceled   Cause = "canceled" // the caller went away
	CauseScript     Cause = "script"   // Redis or the script answered with an error

	causeNoScript Cause = "noscript"
)

// StoreError is a call that Redis did not decide, or whose decision did not
// arrive: what it was to spend may have been spent.
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
		code, _, _ := strings.Cut(answer.Error(), " ")
		switch code {
		case "NOSCRIPT":
			return causeNoScript
		case "LOADING", "MASTERDOWN":
			return CauseLoading
		case "READONLY":
			return CauseReadOnly
		case "OOM":
			return CauseMemory
		}
		return CauseScript
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

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
