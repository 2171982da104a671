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
	"github.com/weir-dev/weir/internal/standalone"
)

type standaloneFlags struct {
	decisionFlags
	policies []string
	replicas int
}

// maxReplicas is the largest number of replicas; more would not share one Redis.
const maxReplicas = 1000

func newStandaloneCommand() *cobra.Command {
	f := &standaloneFlags{decisionFlags: decisionFlags{guests: true}}
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
	flags.StringSliceVar(&f.policies, "policies", nil, "folder with policy files, also in folders below; may be repeated (required)")
	flags.IntVar(&f.replicas, "replicas", 1, "number of processes that share Redis: while Redis does not answer, failureMode Local divides the limits by it")
	return cmd
}

func (f *standaloneFlags) run(ctx context.Context, out io.Writer) error {
	if err := f.readRedisURL(); err != nil {
		return err
	}
	if err := f.validate(); err != nil {
		return err
	}
	options, stop, err := f.endpointOptions(ctx)
	if err != nil {
		return err
	}
	defer stop()
	// The manager gets these collectors from controller-runtime.
	options.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if options.ReplicaName, err = replicaName(); err != nil {
		return err
	}
	options.OnConsole = func(url string) { _, _ = fmt.Fprintln(out, "Console: "+url) }
	e, err := standalone.New(ctx, standalone.Options{
		Options:    options,
		Policies:   f.policies,
		RedisURL:   f.redisURL,
		RedisFiles: f.redisFiles,
		Replicas:   f.replicas,
	})
	if err != nil {
		return err
	}
	return e.Run(ctx)
}

func (f *standaloneFlags) validate() error {
	errs := []error{f.decisionFlags.validate()}
	if len(f.policies) == 0 {
		errs = append(errs, errors.New("--policies: at least one folder is required"))
	}
	if f.replicas < 1 || f.replicas > maxReplicas {
		errs = append(errs, fmt.Errorf("--replicas %d: must be 1..%d", f.replicas, maxReplicas))
	}
	if f.redisURL == "" && (f.redisFiles != (redisclient.Files{}) || f.redisCommand != "") {
		errs = append(errs, errors.New("--redis-credentials-command, --redis-*-file, --redis-server-name: need --redis-url or --redis-url-file"))
	}
	return errors.Join(errs...)
}
