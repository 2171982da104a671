// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/manager"
)

// namespaceFile says in which namespace a pod runs.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

type managerFlags struct {
	decisionFlags
	kubeconfig   string
	controllers  bool
	decisions    bool
	tenancy      string
	installation string
	replica      string
	lease        manager.LeaseOptions
	webhook      webhookFlags
}

func newManagerCommand() *cobra.Command {
	f := &managerFlags{}
	cmd := &cobra.Command{
		Use:   "manager --redis-url URL",
		Short: "Publish the policies of a cluster, and decide by them",
		Long: `Publish the policies of a cluster, and decide by them.

Every process decides by the plans in the registry in Redis; the one that
holds the lease publishes what the API server holds. Decisions do not need the
API server: they go on while it is away, and begin without it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.redisURL, "redis-url", "", "where counters and plans live, as redis://, rediss://, redis-cluster:// or rediss-cluster://")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the API server; empty is KUBECONFIG, or the pod's own account")
	flags.BoolVar(&f.controllers, "controllers", true, "publish the policies of the cluster, where this process holds the lease")
	flags.BoolVar(&f.decisions, "decisions", true, "answer checks")
	flags.StringVar(&f.tenancy, "tenancy", string(compile.TenancyNamespace),
		"Namespace: policies match only what the annotations of their Namespace grant; Cluster: every author is trusted")
	flags.StringVar(&f.installation, "installation", "weir",
		"names those who share one registry; two clusters on one Redis need different prefixes, and would notice by different names")
	flags.StringVar(&f.replica, "replica", "", "names this process among the live replicas; empty is the host name and process id")
	flags.StringVar(&f.lease.Namespace, "lease-namespace", "", "where the Lease is; empty is the pod's own namespace, or default")
	flags.DurationVar(&f.lease.Duration, "lease-duration", 15*time.Second, "how long others wait for a leader that is silent")
	flags.DurationVar(&f.lease.RenewDeadline, "lease-renew-deadline", 10*time.Second, "how long a leader goes on that cannot renew")
	flags.DurationVar(&f.lease.RetryPeriod, "lease-retry-period", 2*time.Second, "the time between attempts to get or renew the lease")
	f.webhook.add(cmd)
	return cmd
}

func (f *managerFlags) run(ctx context.Context) error {
	if err := f.validate(); err != nil {
		return err
	}
	endpoint, stop, err := f.endpointOptions(ctx)
	if err != nil {
		return err
	}
	defer stop()
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	if f.replica == "" {
		f.replica = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	f.lease.Identity = f.replica
	if f.lease.Namespace == "" {
		f.lease.Namespace = ownNamespace()
	}
	options := manager.Options{
		Options:      endpoint,
		RedisURL:     f.redisURL,
		RedisFiles:   f.redisFiles,
		Controllers:  f.controllers,
		Decisions:    f.decisions,
		Tenancy:      compile.Tenancy(f.tenancy),
		Lease:        f.lease,
		Webhook:      f.webhook.options(f.lease.Namespace, f.drainDelay),
		Installation: f.installation,
		Replica:      f.replica,
	}
	// Who only decides can do without an API server, and then has no operators.
	options.Config, err = f.restConfig()
	if err != nil && (f.controllers || !clientcmd.IsEmptyConfig(err)) {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	return manager.Run(ctx, options)
}

func (f *managerFlags) validate() error {
	errs := []error{f.decisionFlags.validate()}
	if f.redisURL == "" {
		errs = append(errs, errors.New("--redis-url: is required"))
	}
	if !f.controllers && !f.decisions {
		errs = append(errs, errors.New("--controllers=false --decisions=false: nothing is left to do"))
	}
	if t := compile.Tenancy(f.tenancy); t != compile.TenancyNamespace && t != compile.TenancyCluster {
		errs = append(errs, fmt.Errorf("--tenancy %q: must be Namespace or Cluster", f.tenancy))
	}
	errs = append(errs, f.webhook.validate())
	if err := f.lease.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--lease-duration, --lease-renew-deadline, --lease-retry-period: %w", err))
	}
	if strings.Contains(f.replica, "/") {
		errs = append(errs, fmt.Errorf("--replica %q: must not hold slashes", f.replica))
	}
	if f.installation == "" || strings.Contains(f.installation, "/") {
		errs = append(errs, fmt.Errorf("--installation %q: must be a name without slashes", f.installation))
	}
	return errors.Join(errs...)
}

// restConfig finds the API server as kubectl does, or as a pod does.
func (f *managerFlags) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	// The API server has its own way to fend off clients; ours would only make a
	// burst of statuses slow.
	config.QPS = -1
	return config, nil
}

func ownNamespace() string {
	if data, err := os.ReadFile(namespaceFile); err == nil {
		return strings.TrimSpace(string(data))
	}
	return "default"
}
