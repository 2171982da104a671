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
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "weir", buildVersion())
			return err
		},
	}
}

// buildVersion is what weir version and weir --version print.
func buildVersion() string { return fmt.Sprintf("%s (commit %s, built %s)", version, commit, date) }

// newBuildInfo returns the metric with the version of this build.
func newBuildInfo() prometheus.Collector {
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "weir_build_info",
		Help: "Always 1. The labels identify the build.",
	}, []string{"version", "commit", "date", "goversion"})
	info.WithLabelValues(version, commit, date, runtime.Version()).Set(1)
	return info
}
