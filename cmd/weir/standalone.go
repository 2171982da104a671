// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/internal/reject"
	"github.com/weir-dev/weir/internal/standalone"
)

type standaloneFlags struct {
	decisionFlags
	standalone.Options
}

// maxReplicas is the largest number of replicas; more would not share one Redis.
const maxReplicas = 1000

func newStandaloneCommand() *cobra.Command {
	f := &standaloneFlags{decisionFlags: decisionFlags{options: endpoint.Options{ConsoleGuests: true}}}
	cmd := &cobra.Command{
		Use:   "standalone --policies DIR",
		Short: "Enforce policies from files, without Kubernetes",
		Long: `Enforce policies from files, without Kubernetes.

Policies are read from the .yaml, .yml and .json files in the folders of
--policies, with several documents per file, and reloaded when they change. A file
that fails to load is logged, and its last good policies stay in force. At the start
every file must be valid, and there must be a policy.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.redisURL, "redis-url", "", "URL of the Redis for counters: "+redisSchemes+" (default: count in memory)")
	flags.StringSliceVar(&f.Policies, "policies", nil, "folder with policy files, also in folders below; may be repeated (required)")
	flags.IntVar(&f.Replicas, "replicas", 1, "number of processes that share Redis: while Redis does not answer, failureMode Local divides the limits by it")
	return cmd
}

func (f *standaloneFlags) run(ctx context.Context, out io.Writer) error {
	if err := f.readRedisURL(); err != nil {
		return err
	}
	if err := f.validate(); err != nil {
		return err
	}
	stop, err := f.complete(ctx)
	if err != nil {
		return err
	}
	defer stop()
	f.Options.Options, f.RedisURL, f.RedisFiles = f.options, f.redisURL, f.redisFiles
	// The manager gets these collectors from controller-runtime.
	f.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if f.ReplicaName, err = replicaName(); err != nil {
		return err
	}
	f.OnConsole = func(url string) { _, _ = fmt.Fprintln(out, "Console: "+url) }
	e, err := standalone.New(ctx, f.Options)
	if err != nil {
		return err
	}
	return e.Run(ctx)
}

func (f *standaloneFlags) validate() error {
	return errors.Join(
		f.decisionFlags.validate(),
		reject.If(len(f.Policies) == 0, "--policies: at least one folder is required"),
		reject.If(f.Replicas < 1 || f.Replicas > maxReplicas, "--replicas %d: must be 1..%d", f.Replicas, maxReplicas),
		reject.If(f.redisURL == "" && (f.redisFiles != (redisclient.Files{}) || f.redisCommand != ""),
			"--redis-credentials-command, --redis-*-file, --redis-server-name: need --redis-url or --redis-url-file"))
}
