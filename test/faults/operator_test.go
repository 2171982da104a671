// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/kube"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// enforcedWithin is the time after a fault in which an edit must be enforced, as docs/reliability.md
// promises.
const enforcedWithin = 30 * time.Second

// operator is a kube-apiserver and a Redis for managers under load. Its lease is short.
type operator struct {
	*single
	t          *testing.T
	api        *kube.APIServer
	client     client.Client
	kubeconfig string
	started    atomic.Int64 // edits of the policy edited
	applied    atomic.Int64 // likewise, which the API server has
}

// startOperator starts the servers and stores the policies, with one more that the test edits.
func startOperator(t *testing.T) *operator {
	t.Helper()
	g := NewWithT(t)
	o := &operator{single: startSingle(t), t: t, api: kube.StartAPIServer(t)}
	o.client = o.api.Client()
	o.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(o.kubeconfig, o.api.Env.KubeConfig, 0o600)).To(Succeed())
	g.Expect(o.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "faults"}})).To(Succeed())
	stored, err := testpolicy.Read(t.Context(), []byte(policies))
	g.Expect(err).NotTo(HaveOccurred())
	for _, p := range append(stored, o.edited(1)) {
		g.Expect(o.client.Create(t.Context(), p)).To(Succeed())
	}
	return o
}

// edited returns the policy that the test edits.
func (*operator) edited(threshold int64) *v1alpha1.RateLimitPolicy {
	return testpolicy.Make("faults/edited").Limit("hourly", v1alpha1.AlgorithmFixedWindow, threshold, "1h").Obj()
}

// edit raises the threshold of the policy. Edits must not overlap.
func (o *operator) edit() error {
	n := o.started.Add(1)
	patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/limits/0/threshold","value":%d}]`, 1+n)
	err := o.client.Patch(o.t.Context(), o.edited(1), client.RawPatch(types.JSONPatchType, []byte(patch)))
	if err == nil {
		o.applied.Store(n)
	}
	return err
}

// manager returns the arguments of a manager.
func (o *operator) manager() []string {
	return []string{
		"manager", "--redis-url", o.redis.URL, "--kubeconfig", o.kubeconfig, "--tenancy", "Cluster",
		"--lease-duration", "3s", "--lease-renew-deadline", "2s", "--lease-retry-period", "500ms", "--webhook-address", "",
	}
}

// system returns two managers on the servers.
func (o *operator) system(begin, end func(*system)) *system {
	s := &system{weirs: 2, command: o.manager()}
	s.begin = func() { begin(s) }
	s.end = func() {
		if end != nil {
			end(s)
		}
		g := NewWithT(o.t)
		g.Eventually(o.edit, "30s").Should(Succeed())
		for _, w := range s.processes {
			g.Eventually(func() int64 { return w.threshold("edited") }, enforcedWithin, "20ms").Should(Equal(1+o.started.Load()), "the last edit is enforced")
		}
	}
	return s
}

// reason returns the reason of the condition Programmed of the policy.
func (o *operator) reason(policy string) string {
	p := &v1alpha1.RateLimitPolicy{}
	if o.client.Get(o.t.Context(), types.NamespacedName{Namespace: "faults", Name: policy}, p) != nil {
		return ""
	}
	if found := apimeta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProgrammed); found != nil {
		return found.Reason
	}
	return ""
}

// leader returns the process that holds the lease.
func (o *operator) leader(s *system) *weir {
	var leader *weir
	await(o.t, "a leader", func() bool {
		lease := &coordinationv1.Lease{}
		if o.client.Get(o.t.Context(), types.NamespacedName{Namespace: "default", Name: "weir-manager"}, lease) != nil || lease.Spec.HolderIdentity == nil {
			return false
		}
		for _, w := range s.processes {
			if strings.HasSuffix(*lease.Spec.HolderIdentity, fmt.Sprintf("-%d", w.cmd.Process.Pid)) {
				leader = w
			}
		}
		return leader != nil
	})
	return leader
}

// wipeRegistry deletes everything in Redis except the counters.
func (o *operator) wipeRegistry() {
	g := NewWithT(o.t)
	keys := o.admin.Keys(o.t.Context(), "weir:*").Val()
	g.Expect(keys).NotTo(BeEmpty())
	for _, key := range keys {
		if !strings.HasPrefix(key, "weir:1:c:") {
			g.Expect(o.admin.Del(o.t.Context(), key).Err()).To(Succeed())
		}
	}
}

// operatorFaults are the faults of the half that publishes policies.
var operatorFaults = []fault{
	{name: "the leader is killed while it publishes", drops: true, setup: func(t *testing.T) *system {
		t.Helper()
		o := startOperator(t)
		return o.system(o.killPublishers, nil)
	}},
	{name: "the leader is frozen for longer than its lease: two leaders", length: 6 * time.Second, drops: true, setup: func(t *testing.T) *system {
		t.Helper()
		o := startOperator(t)
		var frozen *weir
		return o.system(
			func(s *system) {
				frozen = o.leader(s)
				testenv.Halt(t, frozen.cmd.Process)
				NewWithT(t).Expect(o.edit()).To(Succeed())
			},
			func(*system) { NewWithT(t).Expect(frozen.cmd.Process.Signal(syscall.SIGCONT)).To(Succeed()) },
		)
	}},
	{name: "the API server is away for a minute, the registry is wiped meanwhile", length: time.Minute, setup: func(t *testing.T) *system {
		t.Helper()
		o := startOperator(t)
		return o.system(func(*system) { o.api.Stop(); o.wipeRegistry() }, func(*system) { o.api.Start() })
	}},
	{name: "messages on the channel of the registry are lost", setup: func(t *testing.T) *system {
		t.Helper()
		o := startOperator(t)
		return o.system(func(*system) {
			for range 20 {
				o.must(t, "CLIENT", "KILL", "TYPE", "pubsub")
				NewWithT(t).Expect(o.edit()).To(Succeed())
			}
		}, nil)
	}},
	{name: "another installation with the same Redis and prefix", setup: func(t *testing.T) *system {
		t.Helper()
		o, other := startOperator(t), startOperator(t)
		return o.system(func(*system) {
			other.redis = o.redis
			w := newProcess(t, other.manager()...) // another cluster, with the same settings
			w.launch()                             // it never becomes ready
			await(t, "the other leader to find the owner", func() bool { return other.reason("many") == v1alpha1.ReasonRegistryOwnedElsewhere })
		}, nil)
	}},
}

func TestFaultsOfTheOperator(t *testing.T) {
	runEach(t, operatorFaults)
}
