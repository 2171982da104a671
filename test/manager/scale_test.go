// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// replicasAtScale is the number of processes that enforce the policies.
const replicasAtScale = 3

// editsAtScale is how many policies are edited, each twice.
const editsAtScale = 500

// BenchmarkScale starts three processes on an API server with many policies and an empty
// Redis, each with the memory limit of the chart. It reports
//   - the time until all processes enforce all policies,
//   - the time until every policy is Ready,
//   - the reconciles and status patches that this took, per policy,
//   - the time of an edit from the response of the API server until all enforce it,
//   - the peak memory after these edits: of the leader, resident and of its cgroup, and of the largest other process,
//   - the time until one more process is ready, which has both halves or only decides, and the peak memory of the latter,
//   - the time from a Redis that hangs until every policy reports it, and the peak memory of the largest process then.
func BenchmarkScale(b *testing.B) {
	for _, policies := range []int{1000, 5000, 20_000} {
		b.Run(fmt.Sprintf("policies=%d", policies), func(b *testing.B) {
			c := startOwnCluster(b)
			c.fill(policies)
			for b.Loop() {
				c.redis.Stop()
				c.redis.Start()
				c.measure(b, policies)
			}
		})
	}
}

// fill creates policies that match one host each, as kubectl apply does, with limited concurrency.
func (c *cluster) fill(policies int) {
	c.tb.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for i := range policies {
		group.Go(func() error {
			policy := testpolicy.Numbered(i)
			applied, err := json.Marshal(policy)
			if err != nil {
				return err
			}
			policy.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: string(applied)}
			return c.client.Create(c.tb.Context(), policy)
		})
	}
	if err := group.Wait(); err != nil {
		c.tb.Fatal(err)
	}
}

func (c *cluster) measure(b *testing.B, policies int) {
	b.Helper()
	g := NewWithT(b)
	patches := c.statusPatches(g)
	start := time.Now()
	all, metrics := make([]*process.Running, replicasAtScale), make([]string, replicasAtScale)
	for i := range all {
		address := testenv.FreeAddr(b)
		metrics[i] = "http://" + address + "/metrics"
		all[i] = c.pod("--metrics-address", address)
	}
	for _, p := range all {
		g.Eventually(func() int { return policiesOf(p) }, "300s", "100ms").Should(Equal(policies))
	}
	b.ReportMetric(time.Since(start).Seconds(), "s-to-enforced")
	awaitReadiness(g, metrics, policies, metav1.ConditionTrue)
	b.ReportMetric(time.Since(start).Seconds(), "s-to-ready")
	b.ReportMetric((c.statusPatches(g)-patches)/float64(policies), "patches/policy")
	reconciles := 0.0
	for _, url := range metrics {
		reconciles += sumOf(g, http.DefaultClient, url, `^controller_runtime_reconcile_total{controller="ratelimitpolicy"`)
	}
	b.ReportMetric(reconciles/float64(policies), "reconciles/policy")

	took := c.timeEdits(b, all, editsAtScale)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	leader, largest := c.leader(all)(), 0
	for _, p := range all {
		if peak := memory(g, p, "VmHWM"); p != leader {
			largest = max(largest, peak)
		}
	}
	b.ReportMetric(float64(memory(g, leader, "VmHWM"))/(1<<20), "leader-MiB")
	b.ReportMetric(float64(podMemory(leader))/(1<<20), "leader-pod-MiB")
	b.ReportMetric(float64(largest)/(1<<20), "follower-MiB")
	c.measureStarts(b, policies)

	c.redis.Pause()
	hung := time.Now()
	awaitReadiness(g, metrics, policies, metav1.ConditionUnknown)
	b.ReportMetric(time.Since(hung).Seconds(), "s-to-unknown")
	c.redis.Resume()
	for _, p := range all {
		largest = max(largest, memory(g, p, "VmHWM"))
		p.Kill(b)
	}
	b.ReportMetric(float64(largest)/(1<<20), "MiB")
}

// pod starts a manager with the memory limit of the chart.
func (c *cluster) pod(args ...string) *process.Running {
	c.tb.Helper()
	return process.StartCommand(c.tb, inPod(c.tb), c.managerArgs(slices.Concat(shortLease, []string{"--max-namespace-policies", "0", "--max-namespace-plan-bytes", "0"}, args)...)...)
}

// measureStarts starts processes beside the running ones.
func (c *cluster) measureStarts(b *testing.B, policies int) {
	b.Helper()
	g := NewWithT(b)
	for unit, args := range map[string][]string{"s-to-start": nil, "s-to-start-deciding": {"--controllers=false"}} {
		start := time.Now()
		p := c.pod(args...)
		g.Eventually(func() int { return p.Status("/readyz") }, process.Timeout, "5ms").Should(Equal(http.StatusOK))
		b.ReportMetric(time.Since(start).Seconds(), unit)
		g.Expect(policiesOf(p)).To(Equal(policies))
		if args != nil {
			b.ReportMetric(float64(memory(g, p, "VmHWM"))/(1<<20), "deciding-MiB")
		}
		p.Signal(b, syscall.SIGTERM)
	}
}

// BenchmarkStandaloneStart measures the time until weir standalone with 20,000 policy files is ready, its CPU time until then, and its
// peak memory.
func BenchmarkStandaloneStart(b *testing.B) {
	g, dir := NewWithT(b), testpolicy.WriteNumbered(b, 20_000)
	for b.Loop() {
		start, metrics := time.Now(), testenv.FreeAddr(b)
		p := process.StartCommand(b, inPod(b), "standalone", "--policies", dir, "--metrics-address", metrics)
		g.Eventually(func() int { return p.Status("/readyz") }, process.Timeout, "5ms").Should(Equal(http.StatusOK))
		b.ReportMetric(time.Since(start).Seconds(), "s-to-start")
		b.ReportMetric(sumOf(g, http.DefaultClient, "http://"+metrics+"/metrics", "^process_cpu_seconds_total "), "cpu-s")
		b.ReportMetric(float64(memory(g, p, "VmHWM"))/(1<<20), "MiB")
		b.ReportMetric(float64(podMemory(p))/(1<<20), "pod-MiB")
		p.Signal(b, syscall.SIGTERM)
	}
}

// statusPatches returns how many status patches the API server has served.
func (c *cluster) statusPatches(g *WithT) float64 {
	return c.apiServerMetric(g, `^apiserver_request_total{.*resource="ratelimitpolicies".*subresource="status".*verb="PATCH"`)
}

// apiServerMetric returns the sum of the series of the API server that match the pattern.
func (c *cluster) apiServerMetric(g *WithT, pattern string) float64 {
	client, err := rest.HTTPClientFor(c.api.Config)
	g.Expect(err).NotTo(HaveOccurred())
	return sumOf(g, client, strings.TrimSuffix(c.api.Config.Host, "/")+"/metrics", pattern)
}

// sumOf returns the sum of the series that match the pattern.
func sumOf(g *WithT, client *http.Client, url, pattern string) (sum float64) {
	response, err := client.Get(url)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(response.Body.Close()).To(Succeed()) }()
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	series := regexp.MustCompile(pattern)
	for line := range strings.Lines(string(body)) {
		if fields := strings.Fields(line); series.MatchString(line) {
			value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			g.Expect(err).NotTo(HaveOccurred())
			sum += value
		}
	}
	return sum
}

// awaitReadiness returns when the leader has read from the API server that every policy has the condition Ready in that
// status. Watching or listing thousands of policies here would slow down the API server that it measures.
func awaitReadiness(g *WithT, metrics []string, policies int, status metav1.ConditionStatus) {
	g.Eventually(func() (ready float64) {
		for _, url := range metrics {
			ready += sumOf(g, http.DefaultClient, url, `^weir_policies{condition="Ready",namespace="shop",status="`+string(status)+`"`)
		}
		return ready
	}, "20m", "250ms").Should(BeEquivalentTo(policies))
}

// timeEdits returns the sorted times that edits took to reach all processes.
func (c *cluster) timeEdits(b *testing.B, all []*process.Running, edits int) []time.Duration {
	b.Helper()
	took := make([]time.Duration, edits)
	for i := range edits {
		name, threshold := fmt.Sprintf("p%d", i), int64(i+2)
		c.edit(name, threshold)
		start := time.Now()
		for _, p := range all {
			for p.Enforces(name)() != threshold {
				if time.Since(start) > process.Timeout {
					b.Fatalf("%s is not enforced", name)
				}
			}
		}
		took[i] = time.Since(start)
		c.edit(name, 1)
	}
	slices.Sort(took)
	return took
}

// policies returns the number of policies that the process enforces.
func policiesOf(p *process.Running) int {
	response, err := http.Get("http://" + p.HTTP + "/v1/policies")
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	var list struct{ Count int }
	if json.NewDecoder(response.Body).Decode(&list) != nil {
		return 0
	}
	return list.Count
}

// memory returns a number of bytes of the status of the process, such as its memory VmRSS and its largest memory VmHWM.
func memory(g *WithT, p *process.Running, field string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	g.Expect(err).NotTo(HaveOccurred())
	found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(text)
	g.Expect(found).NotTo(BeNil())
	kilobytes, err := strconv.Atoi(string(found[1]))
	g.Expect(err).NotTo(HaveOccurred())
	return kilobytes << 10
}
