// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command weir enforces the rate limits of RateLimitPolicy resources.
//
// Read the files in this order:
//
//	main.go          the commands
//	manager.go       weir manager: flags and run
//	standalone.go    weir standalone: flags and run
//	flags.go         the flags that both have
//	tlsflags.go      the flags of TLS on the HTTP and gRPC ports
//	webhookflags.go  the flags of the validating webhook
//	flagerrors.go    errors of single flags
//	memory.go        the memory limit and the garbage collector
//	smoketest.go     weir smoke-test
//	version.go       weir version
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/offline"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		if exit, ok := errors.AsType[*offline.ExitError](err); !ok || exit.Err != nil {
			fmt.Fprintln(os.Stderr, "weir:", err)
		}
		os.Exit(statusOf(err)) //nolint:gocritic // stop only releases the signal handler
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "weir",
		Short:         "Rate limits and abuse protection",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	addVersionFlag(root)
	root.SetFlagErrorFunc(explainFlagError)
	root.AddCommand(newManagerCommand(), newStandaloneCommand(), newSmokeTestCommand(), newVersionCommand())
	root.AddCommand(offline.Commands("weir")...)
	return root
}

func statusOf(err error) int {
	if exit, ok := errors.AsType[*offline.ExitError](err); ok {
		return exit.Code
	}
	return 1
}
