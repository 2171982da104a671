// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-weir is the kubectl plugin of Weir: operators inspect and change the state of
// keys with it.
//
// Read the files in this order:
//
//	main.go         the commands and the exit codes
//	state.go        state, block, unblock and reset, on one key or, by
//	selected.go       one part, on listed keys
//	who.go          who
//	explain.go      explain
//	explanation.go  the answer of explain as tables
//	shadow.go       shadow and enforce
//	groups.go       groups: list, diff and import, from
//	groupsfile.go     the keys of a file, to
//	groupsplan.go     objects, in which a key is placed by its hash, with
//	groupsclient.go   the calls of the API server
//	raise.go        raise
//	exceptions.go   exceptions, and exceptions prune
//	lists.go        blocks, and what lists share
//	console.go      console
//	top.go          top
//	check.go        check: the report, from
//	checkcluster.go   the API server, with
//	checkpods.go        the pods, and
//	checkpolicies.go    warnings of policies
//	checkserver.go    a replica
//	groupsguard.go    the bound on removed keys
//	diff.go         diff, on top of
//	diffobjects.go    key groups, exceptions and the objects of the cluster
//	difffields.go     the fields that differ
//	diffkeys.go       the listed keys that would be over a limit
//	access.go       access
//	wire.go         wire: the manifests by which a gateway asks Weir, from
//	wirecluster.go    what the cluster has
//	probe.go        probe
//	targets.go      targets
//	version.go      version
//	output.go       text, JSON and YAML
//	table.go        tables with a heading
//	connect.go      the flags of the connection, and the connection they select
//	cluster.go      the pod, the port-forward and the token in a cluster
//	client.go       the calls of Weir's HTTP API
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/weir-dev/weir/internal/offline"
)

// The exit codes.
const (
	exitSuccess = 0
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	stop()
	os.Exit(code)
}

// run runs the command line and returns the exit code.
func run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	root := newRootCommand(streams) //nolint:contextcheck // the commands take theirs from cobra
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitSuccess
	}
	exit, hasCode := errors.AsType[*offline.ExitError](err)
	if !hasCode || exit.Err != nil {
		_, _ = fmt.Fprintln(streams.ErrOut, "error:", err)
	}
	if hasCode && exit.Code != exitUsage {
		return exit.Code
	}
	if _, failed := errors.AsType[*failure](err); failed {
		return exitFailure
	}
	_, _ = fmt.Fprintln(streams.ErrOut, "See kubectl weir --help.")
	return exitUsage
}

// failure is an error of a command whose arguments are valid. All other errors are of usage.
type failure struct{ cause error }

// Error implements error.
func (f *failure) Error() string { return f.cause.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.cause }

func newRootCommand(streams genericiooptions.IOStreams) *cobra.Command {
	c := newConnection()
	root := &cobra.Command{
		Use:   "kubectl-weir",
		Short: "Inspect and change who is rate-limited",
		Long: `Inspect and change who is rate-limited.

The plugin finds a ready pod of Weir, forwards a local port to it, and calls it with a
token that is valid for 10 minutes. The chart value access permits this, or the manifests
of kubectl weir access.

Exit codes: 0 success, 1 failure, 2 invalid arguments.`,
		Example:       "  kubectl weir explain -X POST https://shop.example/login -H 'X-Account: bob'\n  kubectl weir state login user-42 192.0.2.1 -n shop",
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl weir"},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	c.addFlags(root.PersistentFlags())
	root.AddCommand(newBlocksCommand(c), newTopCommand(c), newWhoCommand(c), newConsoleCommand(c))
	root.AddCommand(newStateCommand(c), newBlockCommand(c), newUnblockCommand(c), newResetCommand(c),
		newExplainCommand(c), newCheckCommand(c), newDiffCommand(c), newShadowCommand(c), newEnforceCommand(c), newRaiseCommand(c), newExceptionsCommand(c), newAccessCommand(c), newWireCommand(c), newProbeCommand(c), newTargetsCommand(c), newGroupsCommand(c), newVersionCommand(c))
	root.AddCommand(offline.Commands("kubectl weir")...)
	return root
}
