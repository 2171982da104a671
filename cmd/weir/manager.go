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
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/duration"
	"github.com/weir-dev/weir/internal/manager"
	"github.com/weir-dev/weir/internal/reject"
)

// namespaceFile holds the namespace of the pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

type managerFlags struct {
	decisionFlags
	manager.Options
	kubeconfig string
	budgets    map[string]*int // by flag
	webhook    webhookFlags
}

func newManagerCommand() *cobra.Command {
	f := &managerFlags{}
	cmd := &cobra.Command{
		Use:   "manager --redis-url URL",
		Short: "Publish the policies of a cluster and enforce them",
		Long: `Publish the policies of a cluster and enforce them.

Every process decides by the plans in the registry in Redis. The leader publishes
the policies of the API server to that registry. Decisions do not need the API
server: they continue while it is down, even in a process that starts meanwhile.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.redisURL, "redis-url", "", "URL of the Redis for counters and plans: "+redisSchemes+" (required, unless --redis-url-file)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: KUBECONFIG, or the service account of the pod)")
	flags.BoolVar(&f.Controllers, "controllers", true, "publish the policies of the cluster while this process is the leader")
	flags.BoolVar(&f.Decisions, "decisions", true, "answer checks")
	flags.StringVar((*string)(&f.Tenancy), "tenancy", string(compile.TenancyNamespace),
		"what policies may match: Namespace (only what the annotations of their namespace grant) or Cluster (everything)")
	flags.StringSliceVar(&f.Namespaces.Watched, "watch-namespaces", nil,
		"namespaces whose policies are enforced; Roles in them suffice as permissions (default: all)")
	flags.StringSliceVar(&f.Namespaces.Excluded, "exclude-namespaces", nil, "namespaces whose policies are not enforced")
	flags.StringVar(&f.Installation, "installation", "",
		"name of this installation, shared by its processes (default: the UID of the Lease's namespace and the name of the Lease)")
	flags.StringVar(&f.InstallationWas, "installation-was", "",
		"former name of this installation, whose plans its processes accept while the new name rolls out")
	flags.StringVar(&f.Replica, "replica", "", "name of this replica, unique among the live ones (default: host name and process ID)")
	flags.StringVar(&f.Lease.Namespace, "lease-namespace", "", "namespace of the Lease (default: the namespace of the pod, or default)")
	flags.StringVar(&f.Lease.Name, "lease-name", "weir-manager", "name of the Lease; installations in one namespace need different names")
	duration.Var(flags, &f.Lease.Duration, "lease-duration", 15*time.Second, "how long candidates wait after the leader's last renewal before they take over")
	duration.Var(flags, &f.Lease.RenewDeadline, "lease-renew-deadline", 10*time.Second, "how long a leader that cannot renew the Lease keeps leading")
	duration.Var(flags, &f.Lease.RetryPeriod, "lease-retry-period", 2*time.Second, "time between attempts to acquire or renew the Lease")
	f.addBudgets(flags)
	f.webhook.add(cmd)
	return cmd
}

// addBudgets adds the flags that bound the published records. TestBudgetsFitIntoMemory adds their defaults.
func (f *managerFlags) addBudgets(flags *pflag.FlagSet) {
	f.budgets = map[string]*int{}
	add := func(target *int, name string, value int, meaning, rejected string) {
		f.budgets[name] = target
		flags.IntVar(target, name, value, meaning+"; "+rejected+" that needs more is not accepted; 0 is unlimited")
	}
	add(&f.Budgets.Namespace.Policies, "max-namespace-policies", 1_000, "published policies of a namespace", "a policy")
	add(&f.Budgets.Namespace.Bytes, "max-namespace-plan-bytes", 16<<20, "memory of the published plans of a namespace in each replica, in bytes", "a policy")
	add(&f.Budgets.Namespace.KeyBytes, "max-namespace-key-bytes", 40<<20, "memory of the published key groups of a namespace in each replica, in bytes", "a key group")
	add(&f.Budgets.Namespace.Exceptions, "max-namespace-exceptions", 1_000, "exceptions of a namespace that have not ended", "an exception")
	add(&f.Budgets.Namespace.ExceptionBytes, "max-namespace-exception-bytes", 16<<20, "memory of the exceptions of a namespace in each replica, in bytes", "an exception")
	add(&f.Budgets.Total.Policies, "max-policies", 20_000, "published policies of all namespaces", "a policy")
	add(&f.Budgets.Total.Bytes, "max-plan-bytes", 216<<20, "memory of the published plans of all namespaces in each replica, in bytes", "a policy")
	add(&f.Budgets.Total.KeyBytes, "max-key-bytes", 80<<20, "memory of the published key groups of all namespaces in each replica, in bytes", "a key group")
	add(&f.Budgets.Total.ExceptionBytes, "max-exception-bytes", 48<<20, "memory of the exceptions of all namespaces in each replica, in bytes", "an exception")
}

func (f *managerFlags) run(ctx context.Context) error {
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
	if f.Replica == "" {
		if f.Replica, err = replicaName(); err != nil {
			return err
		}
	}
	f.Lease.Identity = f.Replica
	if f.Lease.Namespace == "" {
		f.Lease.Namespace = ownNamespace()
	}
	f.Options.Options, f.RedisURL, f.RedisFiles = f.options, f.redisURL, f.redisFiles
	f.Webhook = f.webhook.options(f.Lease.Namespace, f.DrainDelay)
	// Decisions alone work without an API server; the calls on state are then disabled.
	f.Config, err = f.restConfig()
	switch {
	case clientcmd.IsEmptyConfig(err) && f.Controllers:
		return errors.New("--kubeconfig: no API server is configured; set --kubeconfig or the variable KUBECONFIG to a kubeconfig file, " +
			"or enforce policies from files with weir standalone")
	case err != nil && !clientcmd.IsEmptyConfig(err):
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	return manager.Run(ctx, f.Options)
}

// replicaName returns the default name of this process among the replicas.
func replicaName() (string, error) {
	host, err := os.Hostname()
	return fmt.Sprintf("%s-%d", host, os.Getpid()), err
}

func (f *managerFlags) validate() error {
	return errors.Join(
		f.decisionFlags.validate(),
		reject.If(f.redisURL == "", "--redis-url: is required, or --redis-url-file"),
		reject.If(!f.Controllers && !f.Decisions, "--controllers=false --decisions=false: at least one must be true"),
		reject.If(f.Tenancy != compile.TenancyNamespace && f.Tenancy != compile.TenancyCluster,
			"--tenancy %q: must be Namespace or Cluster", f.Tenancy),
		reject.Wrap("--watch-namespaces, --exclude-namespaces", f.Namespaces.Validate()),
		f.validateBudgets(),
		f.webhook.validate(),
		reject.Wrap("--lease-duration, --lease-renew-deadline, --lease-retry-period", f.Lease.Validate()),
		f.validateNames())
}

func (f *managerFlags) validateNames() error {
	var errs []error
	for flag, name := range map[string]string{"--replica": f.Replica, "--installation": f.Installation, "--installation-was": f.InstallationWas} {
		errs = append(errs, reject.If(strings.Contains(name, "/"), "%s %q: must not contain slashes", flag, name))
	}
	errs = append(errs, reject.Name("--lease-name", f.Lease.Name, validation.IsDNS1123Subdomain(f.Lease.Name)))
	if f.Lease.Namespace != "" {
		errs = append(errs, reject.Name("--lease-namespace", f.Lease.Namespace, validation.IsDNS1123Label(f.Lease.Namespace)))
	}
	return errors.Join(errs...)
}

func (f *managerFlags) validateBudgets() error {
	var errs []error
	for flag, value := range f.budgets {
		errs = append(errs, reject.If(*value < 0, "--%s %d: must not be negative", flag, *value))
	}
	return errors.Join(errs...)
}

// restConfig returns the API server of the kubeconfig or, in a pod, of the service
// account.
func (f *managerFlags) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, err
	}
	// The API server has its own flow control; client-side limits would only delay a
	// burst of status writes.
	config.QPS = -1
	return config, nil
}

func ownNamespace() string {
	if data, err := os.ReadFile(namespaceFile); err == nil {
		return strings.TrimSpace(string(data))
	}
	return "default"
}
