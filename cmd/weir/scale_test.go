// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/testenv"
)

// replicasAtScale is the number of processes that enforce the policies.
const replicasAtScale = 3

// BenchmarkScale starts three processes on an API server with many policies and an empty
// Redis. It reports
//   - the time until all processes enforce all policies,
//   - the time until every policy is Ready,
//   - the reconciles and status patches that this took, per policy,
//   - the peak memory of the largest process,
//   - the time of an edit from the response of the API server until all enforce it,
//   - the time from a Redis that hangs until every policy reports it.
func BenchmarkScale(b *testing.B) {
	for _, policies := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("policies=%d", policies), func(b *testing.B) {
			c := startCluster(b)
			c.fill(policies)
			for b.Loop() {
				c.redis.Stop()
				c.redis.Start()
				c.measure(b, policies)
			}
		})
	}
}

// fill creates policies that match one host each, with limited concurrency.
func (c *cluster) fill(policies int) {
	c.tb.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for i := range policies {
		group.Go(func() error {
			return c.client.Create(c.tb.Context(), testenv.MakePolicy(fmt.Sprintf("shop/p%d", i)).
				Match(v1alpha1.Match{Hosts: []string{fmt.Sprintf("h%d.example", i)}, Paths: []string{"/api/*"}}).
				Limit("hourly", v1alpha1.AlgorithmFixedWindow, 1, "1h").
				Limit("burst", v1alpha1.AlgorithmTokenBucket, 10, "1s").Obj())
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
	all, metrics := make([]*process, replicasAtScale), make([]string, replicasAtScale)
	for i := range all {
		metrics[i] = "http://" + testenv.FreeAddr(b) + "/metrics"
		all[i] = c.manager("--max-namespace-policies", "0", "--metrics-address", strings.TrimSuffix(strings.TrimPrefix(metrics[i], "http://"), "/metrics"))
	}
	for _, p := range all {
		g.Eventually(p.policies, "120s", "20ms").Should(Equal(policies))
	}
	b.ReportMetric(time.Since(start).Seconds(), "s-to-enforced")
	c.awaitReadiness(b, policies, metav1.ConditionTrue)
	b.ReportMetric(time.Since(start).Seconds(), "s-to-ready")
	b.ReportMetric((c.statusPatches(g)-patches)/float64(policies), "patches/policy")
	reconciles := 0.0
	for _, url := range metrics {
		reconciles += sumOf(g, http.DefaultClient, url, `^controller_runtime_reconcile_total{controller="ratelimitpolicy"`)
	}
	b.ReportMetric(reconciles/float64(policies), "reconciles/policy")

	took := c.timeEdits(b, all, 200)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	c.redis.Pause()
	hung := time.Now()
	c.awaitReadiness(b, policies, metav1.ConditionUnknown)
	b.ReportMetric(time.Since(hung).Seconds(), "s-to-unknown")
	c.redis.Resume()
	var largest int
	for _, p := range all {
		largest = max(largest, p.memory(g, "VmHWM"))
	}
	b.ReportMetric(float64(largest)/(1<<20), "MiB")
	for _, p := range all {
		g.Expect(p.cmd.Process.Kill()).To(Succeed())
	}
}

// statusPatches returns how many status patches the API server has served.
func (c *cluster) statusPatches(g *WithT) float64 {
	client, err := rest.HTTPClientFor(c.api.Config)
	g.Expect(err).NotTo(HaveOccurred())
	return sumOf(g, client, strings.TrimSuffix(c.api.Config.Host, "/")+"/metrics",
		`^apiserver_request_total{.*resource="ratelimitpolicies".*subresource="status".*verb="PATCH"`)
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

// awaitReadiness returns when every policy has the condition Ready in that status. It watches the policies, because
// listing thousands again and again would slow down the processes that it measures.
func (c *cluster) awaitReadiness(b *testing.B, policies int, status metav1.ConditionStatus) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.Context(), 10*time.Minute)
	defer stop()
	watcher, err := client.NewWithWatch(c.api.Config, client.Options{Scheme: c.client.Scheme()})
	if err != nil {
		b.Fatal(err)
	}
	reached := map[string]bool{}
	for ctx.Err() == nil { // the API server ends watches that it considers too slow
		stream, err := watcher.Watch(ctx, &v1alpha1.RateLimitPolicyList{}, client.InNamespace("shop"))
		if err != nil {
			b.Fatal(err)
		}
		for event := range stream.ResultChan() {
			if policy, ok := event.Object.(*v1alpha1.RateLimitPolicy); ok {
				reached[policy.Name] = apimeta.IsStatusConditionPresentAndEqual(
					policy.Status.Conditions, v1alpha1.ConditionReady, status)
				if !reached[policy.Name] {
					delete(reached, policy.Name)
				}
			}
			if len(reached) == policies {
				stream.Stop()
				return
			}
		}
	}
	b.Fatalf("only %d of %d policies have Ready=%s", len(reached), policies, status)
}

// timeEdits returns the sorted times that edits took to reach all processes.
func (c *cluster) timeEdits(b *testing.B, all []*process, edits int) []time.Duration {
	b.Helper()
	took := make([]time.Duration, edits)
	for i := range edits {
		name, threshold := fmt.Sprintf("p%d", i), int64(i+2)
		c.edit(name, threshold)
		start := time.Now()
		for _, p := range all {
			for p.threshold(name) != threshold {
				if time.Since(start) > 10*time.Second {
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
func (p *process) policies() int {
	response, err := http.Get("http://" + p.http + "/v1/policies")
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	var list struct{ Policies []struct{} }
	if json.NewDecoder(response.Body).Decode(&list) != nil {
		return 0
	}
	return len(list.Policies)
}

// memory returns a number of bytes of the status of the process, such as its memory VmRSS and its largest memory VmHWM.
func (p *process) memory(g *WithT, field string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	g.Expect(err).NotTo(HaveOccurred())
	found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(text)
	g.Expect(found).NotTo(BeNil())
	kilobytes, err := strconv.Atoi(string(found[1]))
	g.Expect(err).NotTo(HaveOccurred())
	return kilobytes << 10
}
