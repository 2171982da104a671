// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
)

// Set by the linker; see the Makefile.
var (
	version = "devel"
	commit  = "unknown"
	date    = "unknown"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printVersion(cmd) },
	}
}

// addVersionFlag adds --version to the root command. Cobra's own flag prints by a template, and a
// program with templates keeps the methods of all its types.
func addVersionFlag(root *cobra.Command) {
	asked := root.Flags().BoolP("version", "v", false, "version for weir")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *asked {
			return printVersion(cmd)
		}
		return cmd.Help()
	}
}

func printVersion(cmd *cobra.Command) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "weir %s (commit %s, built %s)\n", version, commit, date)
	return err
}

// newBuildInfo returns the metric with the version of this build.
func newBuildInfo() prometheus.Collector {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_build_info",
		Help: "Always 1. The labels identify the build.",
	}, []string{"version", "commit", "date", "goversion"})
	info.WithLabelValues(version, commit, date, runtime.Version()).Set(1)
	return info
}
