// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/limiter/httptypes"
	"github.com/weir-dev/weir/internal/offline"
)

// foundKeys is the answer of GET /v1/keys.
type foundKeys struct {
	httptypes.FoundKeys

	value string // that was searched for
	color bool
}

func newWhoCommand(c *connection) *cobra.Command {
	l := &listCommand{connection: c}
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
	l.output.addFlag(cmd)
	cmd.Flags().BoolVarP(&l.all, "all-namespaces", "A", false, "all policies that you may list; others are counted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(l.output.validate(), l.validate()); err != nil {
			return err
		}
		if args[0] == "" {
			return errors.New("VALUE: must not be empty")
		}
		scope, err := l.scope(nil)
		if err != nil {
			return err
		}
		return l.withClient(cmd.Context(), func(ctx context.Context, api *client) error {
			found := &foundKeys{value: args[0], color: offline.HasColor(cmd.OutOrStdout())}
			body, err := api.find(ctx, cmd.ErrOrStderr(), scope, found)
			if err != nil {
				return err
			}
			return l.output.write(cmd.OutOrStdout(), answer{body: body, text: found.write})
		})
	}
	return cmd
}

// find finds the keys of the scope with the value of found.
func (c *client) find(ctx context.Context, progress io.Writer, scope url.Values, found *foundKeys) ([]byte, error) {
	scope.Set("value", found.value)
	return c.list(ctx, progress, "/v1/keys", scope, found)
}

// write writes the keys as a table, each with the command that lifts what denies it.
func (l *foundKeys) write(w io.Writer) error {
	if len(l.Keys) == 0 {
		_, _ = fmt.Fprintf(w, "No key with %s is blocked, or was denied in the last minutes.\n", displayed(l.value)) // writeNotes returns the error
		return l.writeNotes(w)
	}
	t := newTable(w)
	t.bold = l.color
	t.heading("POLICY", "KEY", "HASH", "STATE", "LIFT WITH")
	for i := range l.Keys {
		k := &l.Keys[i]
		t.row(visible(k.Policy), listedText(&k.ListedKey), hashText(k.KeyHash), deniedBy(k), liftWith(k))
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
	return writeNotes(w, truncated, missingNote(l.Missing), hiddenNote(l.HiddenPolicies))
}

// deniedBy describes what denies the key.
func deniedBy(k *httptypes.FoundKey) string {
	switch {
	case !k.Blocked:
		return "denied (" + denied(k.Denials) + ")"
	case k.Limit == "":
		return "blocked for " + millis(k.LeftMs) + " by an operator"
	default:
		return "blocked for " + millis(k.LeftMs) + " by limit " + visible(k.Limit)
	}
}

// liftWith returns the command that lifts what denies the key.
func liftWith(k *httptypes.FoundKey) string {
	command := "reset"
	if k.Blocked {
		command = "unblock"
	}
	namespace, name, _ := strings.Cut(visible(k.Policy), "/")
	return fmt.Sprintf("kubectl weir %s %s --key-hash %s -n %s", command, name, hashText(k.KeyHash), namespace)
}
