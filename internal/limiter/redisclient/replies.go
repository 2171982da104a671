// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// HideReplies replaces the texts of error replies, and of replies that cannot be read, in the errors
// of all commands of the client by texts of Weir, because a server quotes the arguments of commands:
// keys of clients, and passwords. New does so; a hook that is added later sees the server's texts
// unless HideReplies is called again. The types of the errors and their codes stay.
func HideReplies(client redis.UniversalClient) {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(hideReplies{}) })
	}
	client.AddHook(hideReplies{})
}

// ReplyText returns the text that replaces the text of an error reply: its code and a description.
//
// Redis 6.2 puts the position in the script before the code, and a description if the script did
// not catch the error:
//
//	@user_script: 12: -READONLY You can't write against a read only replica.
//	ERR Error running script (call to f_...): @user_script:1: @user_script: 12: -READONLY You can't ...
func ReplyText(text string) string {
	if strings.HasPrefix(text, "@user_script") || strings.HasPrefix(text, "ERR Error running script") {
		if _, inner, found := strings.Cut(text, ": -"); found {
			text = inner
		}
	}
	code := replyCode.FindString(text)
	if description, found := descriptions[code]; found {
		return code + " " + description
	}
	for _, known := range knownErrors {
		if strings.HasPrefix(text, known) {
			return known
		}
	}
	if strings.Contains(text, "user_script") {
		return "ERR the script failed"
	}
	return cmp.Or(code, "ERR") + " the server rejected the command"
}

var replyCode = regexp.MustCompile(`^[A-Z]+\b`)

// descriptions are what the codes of errors mean.
var descriptions = map[string]string{
	"NOSCRIPT":    "the server does not have this script",
	"LOADING":     "the server is loading its data",
	"MASTERDOWN":  "the server has no connection to its master",
	"READONLY":    "the server is a replica, which accepts no writes",
	"MOVED":       "another node owns this slot",
	"ASK":         "the slot is moving to another node",
	"TRYAGAIN":    "the keys of the slot are moving to another node",
	"CROSSSLOT":   "the keys do not belong to one slot",
	"CLUSTERDOWN": "the cluster is down",
	"OOM":         "the server has reached maxmemory",
	"NOREPLICAS":  "the server has too few replicas to accept writes",
	"MISCONF":     "the server cannot save its data, and accepts no writes",
	"BUSY":        "the server is running a long script",
	"NOPERM":      "the ACL of the user forbids the command or a key",
	"NOAUTH":      "the server requires a password",
	"WRONGPASS":   "the user or the password is wrong, or the user is disabled",
	"WRONGTYPE":   "a key holds a value of another type",
}

// knownErrors are the starts of errors without a code of their own that help operators, and contain no
// arguments.
var knownErrors = []string{
	errTooManyClients.Error(),
	"ERR Protocol error: unauthenticated", // the command is too long for a client without credentials
	"ERR unknown command",
	"ERR unknown subcommand",
	"ERR wrong number of arguments",
	"ERR AUTH <password> called without any password configured for the default user",
	"ERR Client sent AUTH, but no password is set",
	"ERR invalid password",
	"ERR DB index is out of range",
	"ERR SELECT is not allowed in cluster mode",
	"ERR This instance has cluster support disabled",
}

// replyError is an error reply of a server, without its text.
type replyError struct {
	text string
	err  error // what the client of the library checks for types
}

// Error implements error.
func (e *replyError) Error() string { return e.text }

// RedisError implements redis.Error.
func (*replyError) RedisError() {}

// Unwrap returns the error of the library. Its text must not be shown.
func (e *replyError) Unwrap() error { return e.err }

// errUnreadable is the error of a reply that breaks the protocol, or has another type than the
// command.
var errUnreadable = errors.New("redis: the reply cannot be read")

// hidden returns the error of a command without texts of the server.
func hidden(err error) error {
	if err == nil || errors.Is(err, redis.Nil) {
		return err
	}
	if _, isHidden := errors.AsType[*replyError](err); isHidden {
		return err
	}
	if _, isOurs := errors.AsType[*notMasterError](err); isOurs {
		return err
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return &replyError{text: ReplyText(reply.Error()), err: err}
	}
	if _, notANumber := errors.AsType[*strconv.NumError](err); notANumber || unreadable.MatchString(err.Error()) {
		return errUnreadable
	}
	return err
}

// unreadable matches the errors of the library that quote a reply.
var unreadable = regexp.MustCompile(`^redis: (can't|invalid|unexpected)|^bigInt\(|^expected `)

// hideReplies is a hook that hides the texts of replies from the hooks before it and from callers.
type hideReplies struct{}

// DialHook implements redis.Hook.
func (hideReplies) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (hideReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := hidden(next(ctx, cmd))
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (hideReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if failure := cmd.Err(); failure != nil {
				cmd.SetErr(hidden(failure))
			}
		}
		return hidden(err)
	}
}
