// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/message"
	"github.com/weir-dev/weir/internal/offline"
)

const (
	// watchPeriod is the time between two refreshes of top --watch.
	watchPeriod = 2 * time.Second
	// shownKeys is how many keys of each policy top shows.
	shownKeys = 10
)

// ListCommand is a command that lists what happens to keys.
type ListCommand struct {
	*connect.Connection
	Output offline.Output
	All    bool // of all Namespaces
}

// listCall lists what the scope selects.
type listCall = func(cmd *cobra.Command, ctx context.Context, api *connect.Client, scope url.Values) error

// Add adds the command's flags and arguments and returns it. It runs do with the scope as a query.
func (l *ListCommand) Add(cmd *cobra.Command, do listCall) *cobra.Command {
	l.addFlags(cmd)
	cmd.Use += " [POLICY]"
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return l.run(cmd, args, do) }
	return cmd
}

func (l *ListCommand) addFlags(cmd *cobra.Command) {
	l.Output.AddFlag(cmd)
	cmd.Flags().BoolVarP(&l.All, "all-namespaces", "A", false, "all policies that you may list; others are counted")
}

// run runs do with the scope that the arguments name.
func (l *ListCommand) run(cmd *cobra.Command, args []string, do listCall) error {
	if err := errors.Join(l.Output.Validate(), l.Validate()); err != nil {
		return err
	}
	scope, err := l.scope(args)
	if err != nil {
		return err
	}
	return l.WithClient(cmd.Context(), func(ctx context.Context, api *connect.Client) error { return do(cmd, ctx, api, scope) })
}

// scope returns the policies that the arguments name, as parameters of a query.
func (l *ListCommand) scope(args []string) (url.Values, error) {
	if l.All {
		if len(args) > 0 {
			return nil, errors.New("-A: cannot be combined with POLICY")
		}
		return url.Values{}, nil
	}
	if len(args) > 0 {
		policy, err := PolicyID(l.Connection, args[0])
		return url.Values{"policy": {policy}}, err
	}
	namespace, err := l.Namespace()
	return url.Values{"namespace": {namespace}}, err
}

// ScopeText describes the scope of a list.
func ScopeText(scope url.Values) string {
	if policy := scope.Get("policy"); policy != "" {
		return "by " + policy
	}
	if namespace := scope.Get("namespace"); namespace != "" {
		return "in Namespace " + namespace
	}
	return "in any Namespace"
}

func newBlocksCommand(c *connect.Connection) *cobra.Command {
	l := &ListCommand{Connection: c}
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
	return l.Add(cmd, func(cmd *cobra.Command, ctx context.Context, api *connect.Client, scope url.Values) error {
		scope.Set("limit", strconv.Itoa(limit))
		list := &BlockList{scope: ScopeText(scope)}
		body, err := api.List(ctx, cmd.ErrOrStderr(), "/v1/blocks", scope, list)
		if err != nil {
			return err
		}
		return l.Output.Write(cmd.OutOrStdout(), offline.Answer{Body: body, Text: list.write})
	})
}

func newTopCommand(c *connect.Connection) *cobra.Command {
	l := &ListCommand{Connection: c}
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
		if watch && l.Output != "" {
			return errors.New("--watch: cannot be combined with -o")
		}
		return nil
	}
	return l.Add(cmd, func(cmd *cobra.Command, ctx context.Context, api *connect.Client, scope url.Values) error {
		for {
			top := &TopList{}
			body, err := api.List(ctx, cmd.ErrOrStderr(), "/v1/top", scope, top)
			if err == nil {
				if watch && offline.IsTerminal(cmd.OutOrStdout()) {
					_, _ = fmt.Fprint(cmd.OutOrStdout(), "\x1b[H\x1b[2J")
				}
				err = l.Output.Write(cmd.OutOrStdout(), offline.Answer{Body: body, Text: top.write})
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

// BlockList is the answer of GET /v1/blocks.
type BlockList struct {
	httptypes.BlockList

	scope string
}

// write writes the blocks as a table.
func (l *BlockList) write(w io.Writer) error {
	if len(l.Blocks) == 0 {
		_, _ = fmt.Fprintf(w, "No key is blocked %s.\n", l.scope) // writeNotes returns the error
	} else {
		t := connect.NewTable(w)
		t.Heading("POLICY", "KEY", "HASH", "BY", "LEFT")
		for i := range l.Blocks {
			b := &l.Blocks[i]
			by := "an operator"
			if b.Limit != "" {
				by = "limit " + message.Printable(b.Limit)
			}
			t.Row(message.Printable(b.Policy), connect.ListedText(&b.ListedKey), connect.HashText(b.KeyHash), by, connect.Millis(b.LeftMs))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	more := ""
	if l.Truncated {
		more = "There are more blocks: choose a policy, or a larger --limit."
	}
	return WriteNotes(w, more, HiddenNote(l.HiddenPolicies))
}

// missingNote reports replicas whose observations an answer lacks.
func missingNote(missing []string) string {
	if len(missing) == 0 {
		return ""
	}
	return "These replicas did not report: " + message.Printable(strings.Join(missing, ", ")) + "."
}

// HiddenNote reports policies that the caller may not list.
func HiddenNote(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("Policies of Namespaces that the account may not list: %d.", n)
}

// WriteNotes writes the notes that are not empty.
func WriteNotes(w io.Writer, notes ...string) error {
	notes = slices.DeleteFunc(notes, func(note string) bool { return note == "" })
	if len(notes) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(w, "\n"+strings.Join(notes, "\n"))
	return err
}
