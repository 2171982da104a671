// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-weir is the kubectl plugin of Weir: operators inspect and change the state of
// keys with it.
//
// main.go has the list of commands and the exit codes. Each group of commands is a package: keys, policies, gateways,
// exceptions, groups and installation; all of them use connect.
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

	"github.com/weir-dev/weir/cmd/kubectl-weir/connect"
	"github.com/weir-dev/weir/cmd/kubectl-weir/exceptions"
	"github.com/weir-dev/weir/cmd/kubectl-weir/gateways"
	"github.com/weir-dev/weir/cmd/kubectl-weir/groups"
	"github.com/weir-dev/weir/cmd/kubectl-weir/installation"
	"github.com/weir-dev/weir/cmd/kubectl-weir/keys"
	"github.com/weir-dev/weir/cmd/kubectl-weir/policies"
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
	_, _ = fmt.Fprintln(streams.ErrOut, "See kubectl weir --help.")
	return exitUsage
}

func newRootCommand(streams genericiooptions.IOStreams) *cobra.Command {
	c := connect.NewConnection()
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
	c.AddFlags(root.PersistentFlags())
	for _, commands := range []func(*connect.Connection) []*cobra.Command{
		keys.Commands, policies.Commands, exceptions.Commands, groups.Commands, gateways.Commands, installation.Commands,
	} {
		root.AddCommand(commands(c)...)
	}
	root.AddCommand(offline.Commands("kubectl weir")...)
	return root
}
