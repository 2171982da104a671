// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// slicedQuota is the quota of each policy with slices.
const slicedQuota = 600

// slicedLimits have one limit of slicedQuota, which no time of the test refills, by the name of its policy.
var slicedLimits = map[string]string{
	"fixed-window":   "{name: l, algorithm: FixedWindow, threshold: 600, window: 100h}",
	"sliding-log":    "{name: l, algorithm: SlidingLog, threshold: 600, window: 100h}",
	"sliding-window": "{name: l, algorithm: SlidingWindow, threshold: 600, window: 100h}",
	"token-bucket":   "{name: l, algorithm: TokenBucket, threshold: 100, window: 720h, burst: 600}",
	"gcra":           "{name: l, algorithm: GCRA, threshold: 100, window: 720h, burst: 600}",
}

// slicedCallers are callers of processes that share policies with slices.
type slicedCallers struct {
	t          *testing.T
	client     *http.Client
	chains     [][]string // the policies of each check
	fromSlices atomic.Int64
	ofChains   atomic.Int64 // from slices of several policies

	mu       sync.Mutex
	admitted map[string]int64 // units by policy
}

func newSlicedCallers(t *testing.T, callers int) *slicedCallers {
	t.Helper()
	c := &slicedCallers{t: t, admitted: map[string]int64{}, client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: callers, DisableCompression: true},
	}}
	t.Cleanup(c.client.CloseIdleConnections)
	var all []string
	for policy := range slicedLimits {
		c.chains, all = append(c.chains, []string{policy}), append(all, policy)
	}
	c.chains = append(c.chains, all)
	return c
}

// slicedAnswer is the answer to a check of policies with slices.
type slicedAnswer struct {
	Allowed   bool
	FromSlice bool
	Limits    []struct{ Used, Held int64 }
}

// check makes one check of the policies and counts the admission for each.
func (c *slicedCallers) check(p *process.Running, key string, peek bool, policies ...string) (answer slicedAnswer) {
	body := fmt.Sprintf(`{"policies": ["a/%s"], "key": %q, "peek": %t}`, strings.Join(policies, `", "a/`), key, peek)
	response, err := c.client.Post("http://"+p.HTTP+"/v1/check", "application/json", strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return answer
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode >= 500 {
		c.t.Errorf("status %d, %v", response.StatusCode, err)
	}
	if peek || !answer.Allowed {
		return answer
	}
	if answer.FromSlice {
		c.fromSlices.Add(1)
		if len(policies) > 1 {
			c.ofChains.Add(1)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, policy := range policies {
		c.admitted[policy]++
	}
	return answer
}

// run makes the checks from a number of callers at once. Each caller calls one process, for all chains in turn.
func (c *slicedCallers) run(processes []*process.Running, key string, callers, checks int) {
	var wait sync.WaitGroup
	for caller := range callers {
		wait.Go(func() {
			for n := caller; n < checks; n += callers {
				c.check(processes[caller%len(processes)], key, false, c.chains[(caller+n/callers)%len(c.chains)]...)
			}
		})
	}
	wait.Wait()
}

// One to four processes with slices, 200 checks at once of five algorithms, alone and in one chain: no quota is exceeded, and
// once the slices are returned, Redis has counted every admission. The rest of each quota can then be spent.
func TestSlicesAreExactAcrossProcesses(t *testing.T) {
	// A process closes connections without a finished request beyond 400 (connlimit.DefaultBounds).
	const callers, checks = 200, 6000
	dir := t.TempDir()
	var policies strings.Builder
	for name, limit := range slicedLimits {
		fmt.Fprintf(&policies, "---\napiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: %s, namespace: a}\n"+
			"spec: {slices: {maxPercent: 50, maxAge: 1s}, limits: [%s]}\n", name, limit)
	}
	NewWithT(t).Expect(os.WriteFile(filepath.Join(dir, "sliced.yaml"), []byte(policies.String()), 0o600)).To(Succeed())
	url := testenv.StartRedis(t).URL
	var processes []*process.Running
	for n := 1; n <= 4; n++ {
		processes = append(processes, startStandalone(t, "--policies", dir, "--redis-url", url, "--store-timeout", "60s"))
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			// A key is hot at a rate that a busy machine may not reach in each attempt.
			for attempt, fromSlices := 0, int64(0); fromSlices <= checks/100; attempt++ {
				NewWithT(t).Expect(attempt).To(BeNumerically("<", 20), "hardly any check is decided from slices")
				fromSlices = testSlices(t, processes, fmt.Sprintf("key-%d-%d", n, attempt), callers, checks)
			}
		})
	}
}

// testSlices makes the checks of a new key, and returns how many were decided from slices.
func testSlices(t *testing.T, processes []*process.Running, key string, callers, checks int) (fromSlices int64) {
	t.Helper()
	g, c := NewWithT(t), newSlicedCallers(t, callers)
	c.run(processes, key, callers, checks)
	fromSlices = c.fromSlices.Load()
	t.Logf("%v admitted, %d checks from slices, %d of them chains", c.admitted, fromSlices, c.ofChains.Load())
	for policy := range slicedLimits {
		peek := func() slicedAnswer { return c.check(processes[0], key, true, policy) }
		g.Eventually(func() int64 { return peek().Limits[0].Held }, process.Timeout, "20ms").Should(BeZero(), "all slices are returned")
		used := peek().Limits[0].Used
		g.Expect(c.admitted[policy]).To(BeNumerically("<=", slicedQuota), policy)
		g.Expect(used).To(BeNumerically(">=", c.admitted[policy]), policy)
		lost := used - c.admitted[policy] // in slices that were returned too late
		g.Eventually(func() int64 {       // these checks may take slices again, which deny some of them early
			for c.check(processes[0], key, false, policy).Allowed {
			}
			return c.admitted[policy]
		}, process.Timeout, "20ms").Should(Equal(slicedQuota-lost), policy)
	}
	return fromSlices
}
