// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/config/webhook"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

const (
	// keysAtScale is the number of keys of one group, of 20 characters each, in keyObjectsAtScale objects.
	keysAtScale, keyObjectsAtScale = 200_000, 250
	// keyEdits is how often one key is replaced.
	keyEdits = 200
	// checksAtScale is how many checks each process decides before its memory is read: enough for its heap to grow to
	// what the garbage collector permits.
	checksAtScale = 5_000
)

// BenchmarkKeyGroups imports 200,000 keys into three replicas with both halves, and one that only decides. It reports
//   - the time from the start of the import until every object is Ready and every process decides by its last key, and the
//     CPU time that the API server, these processes and the plugin take for it,
//   - the time of one replaced key from the response of the API server until every process decides by it,
//   - the time that processes take to start with these keys,
//   - the memory of each of these processes beyond the memory of the same processes with one key: its peak, and what it
//     has after the edits.
func BenchmarkKeyGroups(b *testing.B) {
	for b.Loop() {
		few, many := measureKeys(b, 1, 1), measureKeys(b, keysAtScale, keyObjectsAtScale)
		for phase, ofFew := range few {
			for role, memory := range ofFew {
				b.ReportMetric(float64(many[phase][role].peak-memory.peak)/(1<<20), phase+"-"+role+"-peak-MiB")
				b.ReportMetric(float64(many[phase][role].now-memory.now)/(1<<20), phase+"-"+role+"-MiB")
				b.Logf("%s, %s: peak %d MiB beside %d MiB, at the end %d MiB beside %d MiB", phase, role,
					many[phase][role].peak>>20, memory.peak>>20, many[phase][role].now>>20, memory.now>>20)
			}
		}
	}
}

// residentMemory is the memory of a process, in bytes.
type residentMemory struct{ peak, now int }

// memoryByRole is the largest memory of the leader, of other processes with both halves, and of one that only decides.
type memoryByRole map[string]residentMemory

// measureKeys returns the memory of processes after an import and edits, and of processes that start with these keys.
func measureKeys(b *testing.B, keys, objects int) map[string]memoryByRole {
	b.Helper()
	g := NewWithT(b)
	c := startOwnCluster(b)
	c.create(testpolicy.Make("shop/tiers").Key(testpolicy.DescriptorPart("tenant")).
		Limit("burst", v1alpha1.AlgorithmFixedWindow, 5, "1h").
		Override(v1alpha1.Override{Name: "gold", Groups: []string{"gold"}, Limits: []v1alpha1.LimitOverride{{Name: "burst", Threshold: new(int64(500))}}}).Obj())
	start := c.withReviews()
	all := start()
	memory := map[string]memoryByRole{}

	imported := c.importKeys(b, all, keys, objects)
	took, key := c.timeKeyEdits(b, all)
	memory["import"] = c.memoryOf(b, all)
	for _, p := range all {
		p.Kill(b)
	}

	began := time.Now()
	all = start()
	awaitKey(g, all, key)
	restarted := time.Since(began)
	g.Eventually(c.leader(all)).ShouldNot(BeNil())
	c.timeKeyEdits(b, all)
	memory["start"] = c.memoryOf(b, all)
	if keys == keysAtScale {
		for unit, took := range imported {
			b.ReportMetric(took.Seconds(), unit)
		}
		b.ReportMetric(restarted.Seconds(), "s-to-start")
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	}
	return memory
}

// importKeys imports the keys with the plugin and waits until all processes decide by them. It returns by unit how long this
// took, and the CPU times.
func (c *cluster) importKeys(b *testing.B, all []*process.Running, keys, objects int) map[string]time.Duration {
	b.Helper()
	g := NewWithT(b)
	file, list := filepath.Join(b.TempDir(), "keys.txt"), strings.Builder{}
	for i := range keys {
		_, _ = fmt.Fprintln(&list, tenantKey(i))
	}
	g.Expect(os.WriteFile(file, []byte(list.String()), 0o600)).To(Succeed())
	importing := testenv.Command(process.Plugin(b), "groups", "import", file, "--group", "gold", "--shards", strconv.Itoa(objects),
		"-n", "shop", "--kubeconfig", c.kubeconfig)
	pids := make([]int, len(all))
	for i, p := range all {
		pids[i] = p.Cmd.Process.Pid
	}

	began, ofProcesses, ofAPIServer := time.Now(), testenv.CPUTime(b, pids...), c.apiServerCPUTime(g)
	output, err := importing.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(output))
	awaitKey(g, all, tenantKey(keys-1))
	return map[string]time.Duration{
		"s-to-import":         time.Since(began),
		"import-cpu-s":        testenv.CPUTime(b, pids...) - ofProcesses,
		"import-api-cpu-s":    c.apiServerCPUTime(g) - ofAPIServer,
		"import-plugin-cpu-s": importing.ProcessState.UserTime() + importing.ProcessState.SystemTime(),
	}
}

// apiServerCPUTime returns the CPU time of the API server so far.
func (c *cluster) apiServerCPUTime(g *WithT) time.Duration {
	return time.Duration(c.apiServerMetric(g, "^process_cpu_seconds_total ") * float64(time.Second))
}

// tenantKey returns the key with the number, of 20 characters.
func tenantKey(i int) string { return fmt.Sprintf("tenant-%013d", i) }

// withReviews makes the API server ask the webhook of one process. It returns what starts the processes: that one, two
// more with both halves, and one that only decides.
func (c *cluster) withReviews() (start func() []*process.Running) {
	c.tb.Helper()
	g := NewWithT(c.tb)
	authority, address, dir := testenv.NewAuthority(c.tb), testenv.FreeAddr(c.tb), c.tb.TempDir()
	cert, key := authority.Issue(c.tb, "webhook", "127.0.0.1")
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	g.Expect(os.WriteFile(certFile, cert, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(keyFile, key, 0o600)).To(Succeed())
	configuration, err := webhook.Configuration()
	g.Expect(err).NotTo(HaveOccurred())
	for i := range configuration.Webhooks {
		w := &configuration.Webhooks[i].ClientConfig
		w.URL, w.CABundle, w.Service = new("https://"+address+*w.Service.Path), authority.PEM, nil
	}
	c.create(configuration)
	return func() []*process.Running {
		reviews := []string{"--webhook-address", address, "--webhook-cert-file", certFile, "--webhook-key-file", keyFile}
		all := []*process.Running{
			c.manager(append(reviews, shortLease...)...), c.manager(shortLease...), c.manager(shortLease...), c.manager("--controllers=false"),
		}
		g.Eventually(c.leader(all)).ShouldNot(BeNil())
		return all
	}
}

// awaitKey waits until all processes find the key in the group.
func awaitKey(g *WithT, all []*process.Running, key string) {
	for _, p := range all {
		g.Eventually(func() int64 { return p.Threshold("tiers", key) }, process.Timeout, "5ms").Should(Equal(int64(500)))
	}
}

// timeKeyEdits replaces the first key of one object after the other. It returns the sorted times until all processes
// decided by the new key, and the last of these keys.
func (c *cluster) timeKeyEdits(b *testing.B, all []*process.Running) (took []time.Duration, key string) {
	b.Helper()
	g := NewWithT(b)
	groups := &v1alpha1.RateLimitKeyGroupList{}
	g.Expect(c.client.List(b.Context(), groups, client.InNamespace("shop"))).To(Succeed())
	for i := range keyEdits {
		group := &groups.Items[i%len(groups.Items)]
		key = fmt.Sprintf("edited-%d-%d", all[0].Cmd.Process.Pid, i)
		patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/keys/0","value":%q}]`, key)
		g.Expect(c.client.Patch(b.Context(), group, client.RawPatch(types.JSONPatchType, []byte(patch)))).To(Succeed())
		start := time.Now()
		for _, p := range all {
			for p.Threshold("tiers", key) != 500 {
				if time.Since(start) > process.Timeout {
					b.Fatalf("%s is not enforced", key)
				}
			}
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took, key
}

// memoryOf lets each process decide, and returns the memory by role.
func (c *cluster) memoryOf(b *testing.B, all []*process.Running) memoryByRole {
	b.Helper()
	g := NewWithT(b)
	leader, roles := c.leader(all)(), memoryByRole{}
	for i, p := range all {
		for j := range checksAtScale {
			g.Expect(p.Threshold("tiers", tenantKey(j))).NotTo(BeZero())
		}
		role := "follower"
		switch {
		case p == leader:
			role = "leader"
		case i == len(all)-1:
			role = "decisions"
		}
		was := roles[role]
		roles[role] = residentMemory{max(was.peak, memory(g, p, "VmHWM")), max(was.now, memory(g, p, "VmRSS"))}
	}
	return roles
}
