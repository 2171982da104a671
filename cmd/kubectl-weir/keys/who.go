// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/message"
	"github.com/weir-dev/weir/internal/offline"
)

// foundKeys is the answer of GET /v1/keys.
type foundKeys struct {
	httptypes.FoundKeys

	value string // that was searched for
}

func newWhoCommand(c *connect.Connection) *cobra.Command {
	l := &ListCommand{Connection: c}
	cmd := &cobra.Command{
		Use:   "who VALUE",
		Short: "Find blocked and denied keys in which a value appears, and what lifts each",
		Long: `Find blocked and denied keys in which a value appears, and what lifts each.

VALUE is one whole part of a key, such as an account, or an address in a network that a policy
counts as one client. It searches all policies of the Namespace: live blocks, and the keys that were denied
most often in the last minutes. Values of headers are masked in the answer, and found nevertheless.`,
		Example: `  kubectl weir who user-42 -n shop
  kubectl weir who 192.0.2.7 -A`,
		Args: cobra.ExactArgs(1),
	}
	l.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if args[0] == "" {
			return errors.New("VALUE: must not be empty")
		}
		return l.run(cmd, nil, func(cmd *cobra.Command, ctx context.Context, api *connect.Client, scope url.Values) error {
			found := &foundKeys{value: args[0]}
			body, err := find(ctx, api, cmd.ErrOrStderr(), scope, found)
			if err != nil {
				return err
			}
			return l.Output.Write(cmd.OutOrStdout(), offline.Answer{Body: body, Text: found.write})
		})
	}
	return cmd
}

// find finds the keys of the scope with the value of found.
func find(ctx context.Context, c *connect.Client, progress io.Writer, scope url.Values, found *foundKeys) ([]byte, error) {
	scope.Set("value", found.value)
	return c.List(ctx, progress, "/v1/keys", scope, found)
}

// write writes the keys as a table, each with the command that lifts what denies it.
func (l *foundKeys) write(w io.Writer) error {
	if len(l.Keys) == 0 {
		_, _ = fmt.Fprintf(w, "No key with %s is blocked, or was denied in the last minutes.\n", connect.Displayed(l.value)) // writeNotes returns the error
		return l.writeNotes(w)
	}
	t := connect.NewTable(w)
	t.Heading("POLICY", "KEY", "HASH", "STATE", "LIFT WITH")
	for i := range l.Keys {
		k := &l.Keys[i]
		t.Row(message.Printable(k.Policy), connect.ListedText(&k.ListedKey), connect.HashText(k.KeyHash), deniedBy(k), liftWith(k))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return l.writeNotes(w)
}

func (l *foundKeys) writeNotes(w io.Writer) error {
	truncated := ""
	if l.Truncated {
		truncated = "There are more blocks than were searched: some keys may be missing."
	}
	return WriteNotes(w, truncated, missingNote(l.Missing), HiddenNote(l.HiddenPolicies))
}

// deniedBy describes what denies the key.
func deniedBy(k *httptypes.FoundKey) string {
	switch {
	case !k.Blocked:
		return "denied (" + denied(k.Denials) + ")"
	case k.Limit == "":
		return "blocked for " + connect.Millis(k.LeftMs) + " by an operator"
	default:
		return "blocked for " + connect.Millis(k.LeftMs) + " by limit " + message.Printable(k.Limit)
	}
}

// liftWith returns the command that lifts what denies the key.
func liftWith(k *httptypes.FoundKey) string {
	command := "reset"
	if k.Blocked {
		command = "unblock"
	}
	namespace, name, _ := strings.Cut(message.Printable(k.Policy), "/")
	return fmt.Sprintf("kubectl weir %s %s --key-hash %s -n %s", command, name, connect.HashText(k.KeyHash), namespace)
}
