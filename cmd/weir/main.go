// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

// Command weir decides whether requests may pass, by the rate limits that
// RateLimitPolicy resources declare.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "weir",
		Short:         "Rate limits and abuse protection",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newManagerCommand(), newStandaloneCommand(), newConvertCommand(), newVersionCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "weir:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}
