// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
	"github.com/weir-dev/weir/test/testenv/process"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

func TestMain(m *testing.M) {
	if policies, _ := strconv.Atoi(os.Getenv(stubPolicies)); policies > 0 {
		serveStubAPI(policies)
	}
	log.SetLogger(logr.Discard()) // of envtest
	SetDefaultEventuallyTimeout(process.Timeout)
	os.Exit(kube.Main(m))
}

// cluster is a real kube-apiserver and a real Redis for manager processes.
type cluster struct {
	tb         testing.TB
	api        *kube.APIServer
	client     client.Client
	redis      *testenv.Redis
	kubeconfig string
}

// startCluster returns the API server of all tests, as new, with another Redis.
func startCluster(tb testing.TB) *cluster {
	tb.Helper()
	return newCluster(tb, kube.Shared(tb))
}

// startOwnCluster returns an API server of its own, for a second one and for measurements.
func startOwnCluster(tb testing.TB) *cluster {
	tb.Helper()
	return newCluster(tb, kube.StartAPIServer(tb))
}

func newCluster(tb testing.TB, api *kube.APIServer) *cluster {
	tb.Helper()
	c := &cluster{tb: tb, api: api, redis: testenv.StartRedis(tb)}
	c.client = c.api.Client()
	c.kubeconfig = filepath.Join(tb.TempDir(), "kubeconfig")
	if err := os.WriteFile(c.kubeconfig, c.api.Env.KubeConfig, 0o600); err != nil {
		tb.Fatal(err)
	}
	c.api.CreateNamespace("shop")
	return c
}

// shortLease are flags with which the Lease of a leader that is killed, frozen or cut off ends in seconds. Others keep it, even on
// a busy machine.
var shortLease = []string{"--lease-duration", "6s", "--lease-renew-deadline", "5s"}

// manager starts a manager that waits long for Redis and for its Lease, without a webhook.
func (c *cluster) manager(args ...string) *process.Running {
	c.tb.Helper()
	return process.Start(c.tb, c.managerArgs(args...)...)
}

func (c *cluster) managerArgs(args ...string) []string {
	return append([]string{
		"manager", "--redis-url", c.redis.URL, "--kubeconfig", c.kubeconfig, "--tenancy", "Cluster",
		"--lease-duration", "60s", "--lease-renew-deadline", "45s", "--lease-retry-period", "500ms",
		"--store-timeout", "60s", "--webhook-address", "",
	}, args...)
}

func (c *cluster) create(object client.Object) {
	c.tb.Helper()
	if err := c.client.Create(c.tb.Context(), object); err != nil {
		c.tb.Fatal(err)
	}
}

func (c *cluster) policy(name string, threshold int64) *v1alpha1.RateLimitPolicy {
	return testpolicy.Make("shop/"+name).Limit("hourly", v1alpha1.AlgorithmFixedWindow, threshold, "1h").Obj()
}

func (c *cluster) apply(name string, threshold int64) {
	c.tb.Helper()
	c.create(c.policy(name, threshold))
}

func (c *cluster) edit(name string, threshold int64) {
	c.tb.Helper()
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/limits/0/threshold","value":%d}]`, threshold)
	if err := c.client.Patch(c.tb.Context(), c.policy(name, 1), client.RawPatch(types.JSONPatchType, []byte(patch))); err != nil {
		c.tb.Fatal(err)
	}
}

// condition returns "<status>/<reason>" of a condition of the current generation of the policy.
func (c *cluster) condition(name, kind string) func() string {
	return func() string {
		policy := &v1alpha1.RateLimitPolicy{}
		if err := c.client.Get(c.tb.Context(), types.NamespacedName{Namespace: "shop", Name: name}, policy); err != nil {
			return err.Error()
		}
		found := apimeta.FindStatusCondition(policy.Status.Conditions, kind)
		switch {
		case found == nil:
			return "absent"
		case found.ObservedGeneration != policy.Generation:
			return "outdated"
		}
		return string(found.Status) + "/" + found.Reason
	}
}

// lease returns the Lease of the leader, or nil.
func (c *cluster) lease() *coordinationv1.Lease {
	lease := &coordinationv1.Lease{}
	if err := c.client.Get(c.tb.Context(), types.NamespacedName{Namespace: "default", Name: "weir-manager"}, lease); err != nil {
		return nil
	}
	return lease
}

// leaseTransitions returns how often the Lease has changed its holder; -1 without a Lease.
func (c *cluster) leaseTransitions() int32 {
	if lease := c.lease(); lease != nil && lease.Spec.LeaseTransitions != nil {
		return *lease.Spec.LeaseTransitions
	}
	return -1
}

// leader returns the process that holds the lease, or nil.
func (c *cluster) leader(among []*process.Running) func() *process.Running {
	return func() *process.Running {
		lease := c.lease()
		if lease == nil || lease.Spec.HolderIdentity == nil {
			return nil
		}
		for _, p := range among {
			if strings.HasSuffix(*lease.Spec.HolderIdentity, fmt.Sprintf("-%d", p.Cmd.Process.Pid)) {
				return p
			}
		}
		return nil
	}
}
