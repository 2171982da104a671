// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/limiter/httptypes"
	"github.com/weir-dev/weir/internal/offline"
)

const (
	// watchPeriod is the time between two refreshes of top --watch.
	watchPeriod = 2 * time.Second
	// progressAfter is how long a command waits silently.
	progressAfter = time.Second
	// shownKeys is how many keys of each policy top shows.
	shownKeys = 10
)

// listCommand is a command that lists what happens to keys.
type listCommand struct {
	*connection
	output output
	all    bool // of all Namespaces
}

// add adds the command's flags and arguments and returns it. It runs do with the scope as a query.
func (l *listCommand) add(cmd *cobra.Command, do func(cmd *cobra.Command, ctx context.Context, api *client, scope url.Values) error) *cobra.Command {
	l.output.addFlag(cmd)
	cmd.Flags().BoolVarP(&l.all, "all-namespaces", "A", false, "all policies that you may list; others are counted")
	cmd.Use += " [POLICY]"
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(l.output.validate(), l.validate()); err != nil {
			return err
		}
		scope, err := l.scope(args)
		if err != nil {
			return err
		}
		return l.withClient(cmd.Context(), func(ctx context.Context, api *client) error { return do(cmd, ctx, api, scope) })
	}
	return cmd
}

// scope returns the policies that the arguments name, as parameters of a query.
func (l *listCommand) scope(args []string) (url.Values, error) {
	if l.all {
		if len(args) > 0 {
			return nil, errors.New("-A: not with POLICY")
		}
		return url.Values{}, nil
	}
	if len(args) > 0 {
		policy, err := l.policy(args[0])
		return url.Values{"policy": {policy}}, err
	}
	namespace, err := l.namespace()
	return url.Values{"namespace": {namespace}}, err
}

// scopeText describes the scope of a list.
func scopeText(scope url.Values) string {
	if policy := scope.Get("policy"); policy != "" {
		return "by " + policy
	}
	if namespace := scope.Get("namespace"); namespace != "" {
		return "in Namespace " + namespace
	}
	return "in any Namespace"
}

func newBlocksCommand(c *connection) *cobra.Command {
	l := &listCommand{connection: c}
	limit := 0
	cmd := &cobra.Command{
		Use:   "blocks",
		Short: "List who is blocked, those whose block ends last first",
		Long: `List who is blocked, those whose block ends last first.

The values of headers in keys are masked, unless the chart value access has reveal: true.
HASH stands for the key: kubectl weir unblock POLICY --key-hash HASH.
A block appears about a second after it began.`,
		Example: `  kubectl weir blocks -n shop
  kubectl weir blocks login -n shop -o json`,
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "most blocks to list, 1 to 1000")
	return l.add(cmd, func(cmd *cobra.Command, ctx context.Context, api *client, scope url.Values) error {
		scope.Set("limit", strconv.Itoa(limit))
		list := &blockList{color: offline.HasColor(cmd.OutOrStdout()), scope: scopeText(scope)}
		body, err := api.list(ctx, cmd.ErrOrStderr(), "/v1/blocks", scope, list)
		if err != nil {
			return err
		}
		return l.output.write(cmd.OutOrStdout(), answer{body: body, text: list.write})
	})
}

func newTopCommand(c *connection) *cobra.Command {
	l := &listCommand{connection: c}
	watch := false
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show which keys are denied most often, and how much each policy decides",
		Long: `Show which keys are denied most often, and how much each policy decides.

DENIED counts the last five to ten minutes on all replicas. "90-100" means that the true
number is between the two. The first answer takes up to three seconds.`,
		Example: `  kubectl weir top -n shop
  kubectl weir top login -n shop --watch`,
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "refresh every two seconds, until Ctrl-C")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if watch && l.output != "" {
			return errors.New("--watch: not with -o")
		}
		return nil
	}
	return l.add(cmd, func(cmd *cobra.Command, ctx context.Context, api *client, scope url.Values) error {
		for {
			top := &topList{color: offline.HasColor(cmd.OutOrStdout())}
			body, err := api.list(ctx, cmd.ErrOrStderr(), "/v1/top", scope, top)
			if err == nil {
				if watch && offline.IsTerminal(cmd.OutOrStdout()) {
					_, _ = fmt.Fprint(cmd.OutOrStdout(), "\x1b[H\x1b[2J")
				}
				err = l.output.write(cmd.OutOrStdout(), answer{body: body, text: top.write})
			}
			if err != nil || !watch {
				return unlessInterrupted(ctx, err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(watchPeriod):
			}
		}
	})
}

// unlessInterrupted returns the error, or nil if Ctrl-C ended the command.
func unlessInterrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// list returns the body of the answer, and decodes it into the given value. If it takes longer than a
// second, it reports progress on a terminal.
func (c *client) list(ctx context.Context, progress io.Writer, path string, query url.Values, into any) ([]byte, error) {
	slow := time.AfterFunc(progressAfter, func() {
		if offline.IsTerminal(progress) {
			_, _ = fmt.Fprintln(progress, "Waiting for the replicas to report...")
		}
	})
	defer slow.Stop()
	return c.call(ctx, http.MethodGet, path+"?"+query.Encode(), nil, into)
}

// maxShownKey is how many characters of a key a table shows.
const maxShownKey = 60

// listedText returns the key for a table. Clients choose it, so it is quoted where it could confuse a
// terminal or the columns.
func listedText(k *httptypes.ListedKey) string {
	text := partsText(k.Key)
	if k.Cut {
		text += "…"
	}
	if runes := []rune(text); len(runes) > maxShownKey {
		text = string(runes[:maxShownKey-1]) + "…"
	}
	return text
}

// partsText returns the parts of a key for a terminal.
func partsText(key []string) string {
	if len(key) == 0 {
		return "(shared)"
	}
	parts := make([]string, len(key))
	for i, part := range key {
		parts[i] = displayed(part)
	}
	return strings.Join(parts, " ")
}

// displayed returns the part of a key: quoted if it has spaces, quotes or characters that are not
// printable.
func displayed(part string) string {
	quoted := strconv.Quote(part)
	switch {
	case part == "":
		return "(missing)"
	case quoted == `"`+part+`"` && !strings.ContainsAny(part, " ()"):
		return part
	default:
		return quoted
	}
}

// hashText returns the hash of a key for a table.
func hashText(hash string) string {
	if hash == "" {
		return "-"
	}
	return visible(hash)
}

// visible returns text of the server without characters that could control a terminal.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// blockList is the answer of GET /v1/blocks.
type blockList struct {
	httptypes.BlockList

	color bool
	scope string
}

// write writes the blocks as a table.
func (l *blockList) write(w io.Writer) error {
	if len(l.Blocks) == 0 {
		_, _ = fmt.Fprintf(w, "No key is blocked %s.\n", l.scope) // writeNotes returns the error
	} else {
		t := newTable(w)
		t.bold = l.color
		t.heading("POLICY", "KEY", "HASH", "BY", "LEFT")
		for i := range l.Blocks {
			b := &l.Blocks[i]
			by := "an operator"
			if b.Limit != "" {
				by = "limit " + visible(b.Limit)
			}
			t.row(visible(b.Policy), listedText(&b.ListedKey), hashText(b.KeyHash), by, millis(b.LeftMs))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	more := ""
	if l.Truncated {
		more = "There are more blocks: choose a policy, or a larger --limit."
	}
	return writeNotes(w, more, hiddenNote(l.HiddenPolicies))
}

// missingNote reports replicas whose observations an answer lacks.
func missingNote(missing []string) string {
	if len(missing) == 0 {
		return ""
	}
	return "These replicas did not report: " + visible(strings.Join(missing, ", ")) + "."
}

// hiddenNote reports policies that the caller may not list.
func hiddenNote(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("Policies of Namespaces that the account may not list: %d.", n)
}

// writeNotes writes the notes that are not empty.
func writeNotes(w io.Writer, notes ...string) error {
	notes = slices.DeleteFunc(notes, func(note string) bool { return note == "" })
	if len(notes) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "\n"+strings.Join(notes, "\n"))
	return err
}
