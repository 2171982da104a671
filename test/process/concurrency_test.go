// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// callPolicies limit the calls at once of a user and of a team.
const callPolicies = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: user, namespace: a}
spec:
  key: [{type: Principal, principal: {}}]
  reservations: {maxTTL: 10m}
  limits: [{name: inflight, algorithm: Concurrency, threshold: 3}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: team, namespace: a}
spec:
  key: [{type: Header, header: {name: X-Team}}]
  reservations: {maxTTL: 10m}
  limits: [{name: inflight, algorithm: Concurrency, threshold: 5}]
`

// post returns the status and the member "reservation" of the answer.
func post(p *process.Running, path, body string) (status int, reservation string, err error) {
	var answer struct{ Reservation string }
	status, _, err = p.Post(path, body, &answer)
	return status, answer.Reservation, err
}

// Callers of two processes that share a Redis, or of one with counters in memory, never make more
// calls at once than the thresholds of their user and their team.
func TestConcurrencyIsExactAcrossProcesses(t *testing.T) {
	dir := t.TempDir()
	NewWithT(t).Expect(os.WriteFile(filepath.Join(dir, "calls.yaml"), []byte(callPolicies), 0o600)).To(Succeed())
	t.Run("Redis", func(t *testing.T) {
		url := testenv.StartRedis(t).URL
		first := startStandalone(t, "--policies", dir, "--redis-url", url, "--store-timeout", "60s")
		second := startStandalone(t, "--policies", dir, "--redis-url", url, "--store-timeout", "60s")
		testCallsAtOnce(t, first, second)
	})
	t.Run("memory", func(t *testing.T) { testCallsAtOnce(t, startStandalone(t, "--policies", dir)) })
}

// gauge counts the open reservations, and the largest number of them so far.
type gauge struct{ open, most atomic.Int64 }

func (g *gauge) add() {
	now := g.open.Add(1)
	for seen := g.most.Load(); now > seen && !g.most.CompareAndSwap(seen, now); {
		seen = g.most.Load()
	}
}

func testCallsAtOnce(t *testing.T, processes ...*process.Running) {
	t.Helper()
	const callers, rounds = 12, 30
	var users [2]gauge
	var team gauge
	var denied atomic.Int64
	call := func(caller, round int) error {
		p, user := processes[(caller+round)%len(processes)], caller%2
		status, reservation, err := post(p, "/v1/reserve", fmt.Sprintf(`{"policies": ["a/user", "a/team"],
			"attributes": {"principal": "user-%d", "headers": {"x-team": "red"}}}`, user))
		if err != nil || status == http.StatusTooManyRequests {
			denied.Add(1)
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("status %d", status)
		}
		users[user].add()
		team.add()
		if _, _, err := post(processes[round%len(processes)], "/v1/renew", fmt.Sprintf(`{"reservation": %q, "ttl": "1m"}`, reservation)); err != nil {
			return err
		}
		users[user].open.Add(-1)
		team.open.Add(-1)
		status, _, err = post(processes[round%len(processes)], "/v1/commit", fmt.Sprintf(`{"reservation": %q, "cost": 1}`, reservation))
		if status != http.StatusOK {
			return fmt.Errorf("commit: status %d: %w", status, err)
		}
		return err
	}
	var wait sync.WaitGroup
	for caller := range callers {
		wait.Go(func() {
			for round := range rounds {
				if err := call(caller, round); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	g := NewWithT(t)
	t.Logf("at most %d and %d of a user, %d of the team; %d of %d denied",
		users[0].most.Load(), users[1].most.Load(), team.most.Load(), denied.Load(), callers*rounds)
	for i := range users {
		g.Expect(users[i].most.Load()).To(BeNumerically("<=", 3))
	}
	g.Expect(team.most.Load()).To(BeNumerically("<=", 5))
	g.Expect(denied.Load()).To(BeNumerically(">", 0), "callers compete")
	for range 3 {
		status, _, err := post(processes[0], "/v1/reserve", `{"policies": ["a/user", "a/team"],
			"attributes": {"principal": "user-0", "headers": {"x-team": "red"}}}`)
		g.Expect(status, err).To(Equal(http.StatusOK), "every unit is free again")
	}
}

// The request in the sample reserves calls of the user and of the team, and tokens.
func TestSampleOfCallsAtOnce(t *testing.T) {
	g := NewWithT(t)
	p := startStandalone(t, "--policies", "../../config/samples")
	reserve := func() (int, string) {
		status, reservation, err := post(p, "/v1/reserve", `{"policies": ["shop/llm-calls", "shop/team-calls", "shop/llm-tokens"],
			"attributes": {"principal": "user-42", "headers": {"x-team": "red"}},
			"costs": {"shop/llm-calls": 1, "shop/team-calls": 1, "shop/llm-tokens": 4000}}`)
		g.Expect(err).NotTo(HaveOccurred())
		return status, reservation
	}
	_, first := reserve()
	for range 3 {
		status, _ := reserve()
		g.Expect(status).To(Equal(http.StatusOK))
	}
	status, _ := reserve()
	g.Expect(status).To(Equal(http.StatusTooManyRequests), "four are in flight")
	status, _, err := post(p, "/v1/commit", fmt.Sprintf(`{"reservation": %q,
		"costs": {"shop/llm-calls": 1, "shop/team-calls": 1, "shop/llm-tokens": 2718}}`, first))
	g.Expect(status, err).To(Equal(http.StatusOK))
	status, _ = reserve()
	g.Expect(status).To(Equal(http.StatusOK))
}
