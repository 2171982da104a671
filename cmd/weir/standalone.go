// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/weir-dev/weir/internal/limiter/httpapi"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/standalone"
)

type standaloneFlags struct {
	decisionFlags
	policies       []string
	adminTokenFile string
}

func newStandaloneCommand() *cobra.Command {
	f := &standaloneFlags{}
	cmd := &cobra.Command{
		Use:   "standalone --policies DIR",
		Short: "Decide without Kubernetes, by policies in files",
		Long: `Decide without Kubernetes.

Policies are read from the files of the folders given by --policies (.yaml,
.yml and .json, several documents a file), and again whenever they change. A
file that turns bad keeps what it last held in force, and the log says why.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.redisURL, "redis-url", "", "where counters live, as redis://, rediss://, redis-cluster:// or rediss-cluster://; empty is an embedded Redis")
	flags.StringSliceVar(&f.policies, "policies", nil, "a folder with policies; may be repeated")
	flags.StringVar(&f.adminTokenFile, "admin-token-file", "",
		"the file with the token of operators, who may see and change the state of keys; empty is nobody")
	return cmd
}

func (f *standaloneFlags) run(ctx context.Context) error {
	if err := f.validate(); err != nil {
		return err
	}
	options, stop, err := f.endpointOptions(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if f.adminTokenFile != "" {
		if options.Authorizer, err = httpapi.NewTokenFile(f.adminTokenFile); err != nil {
			return fmt.Errorf("--admin-token-file: %w", err)
		}
	}
	// The manager has these from controller-runtime.
	options.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	e, err := standalone.New(ctx, standalone.Options{
		Options:    options,
		Policies:   f.policies,
		RedisURL:   f.redisURL,
		RedisFiles: f.redisFiles,
	})
	if err != nil {
		return err
	}
	return e.Run(ctx)
}

func (f *standaloneFlags) validate() error {
	errs := []error{f.decisionFlags.validate()}
	if len(f.policies) == 0 {
		errs = append(errs, errors.New("--policies: name at least one folder"))
	}
	if f.redisURL == "" && f.redisFiles != (redisclient.Files{}) {
		errs = append(errs, errors.New("--redis-password-file and its like: need --redis-url"))
	}
	return errors.Join(errs...)
}
