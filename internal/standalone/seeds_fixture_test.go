// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/test/clock"
	"github.com/weir-dev/weir/test/testenv"
)

// answer is the response of /v1/check.
type answer struct {
	status  int
	header  http.Header
	Allowed bool
	Reason  string
	Limit   string
	Code    string
	Detail  string
	// RetryAfter is in seconds. Context repeats it.
	RetryAfter int64
	Context    struct{ RetryAfter int64 }
	Limits     []limitAnswer
}

type limitAnswer struct {
	Limit                      string
	Allowed                    bool
	Used, Remaining, Threshold int64
	RetryAfterMs, ResetAfterMs int64
	RemainingAfterWaiting      int64
	SuppressionFactor          float64
}

// seed is an endpoint with the policies of one document, on a Redis whose clock the
// test sets.
type seed struct {
	*running
	g      *WithT
	server *testenv.Redis
	clock  *clock.Clock
	client *redis.Client
}

func plant(t *testing.T, specs map[string]string) *seed {
	t.Helper()
	server, clock := testenv.StartRedisWithClock(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	return &seed{
		running: startWithClock(t, server.URL, filesOf(specs), clock.Now),
		g:       NewWithT(t), server: server, clock: clock, client: client,
	}
}

// filesOf returns a policy file for each spec.
func filesOf(specs map[string]string) map[string]string {
	files := map[string]string{}
	for name, spec := range specs {
		files[name+".yaml"] = fmt.Sprintf(
			"apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitPolicy\nmetadata: {name: %s, namespace: shop}\nspec:\n%s\n", name, spec)
	}
	return files
}

// ask sends a check of the policies for the key; more holds further JSON members.
func (r *running) ask(g *WithT, policies, key string, more ...string) answer {
	body := fmt.Sprintf(`{"policies":["shop/%s"],"key":%q%s}`,
		strings.ReplaceAll(policies, " ", `","shop/`), key, strings.Join(append([]string{""}, more...), ","))
	return r.post(g, body)
}

func (r *running) post(g *WithT, body string) answer {
	response, err := http.Post("http://"+r.HTTP.Addr()+"/v1/check", "application/json", strings.NewReader(body))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	a := answer{status: response.StatusCode, header: response.Header}
	text, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.Unmarshal(text, &a)).To(Succeed(), string(text))
	return a
}

func (r *running) metrics(g *WithT) string {
	response, err := http.Get("http://" + r.Metrics.Addr() + "/metrics")
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// counters returns the keys in Redis.
func (s *seed) counters(t *testing.T) []string {
	t.Helper()
	keys, err := s.client.Keys(t.Context(), "weir:1:c:*").Result()
	s.g.Expect(err).NotTo(HaveOccurred())
	return keys
}

func (s *seed) inParallel(checks int, passes func() bool) int {
	var passed atomic.Int64
	var wait sync.WaitGroup
	for range checks {
		wait.Go(func() {
			if passes() {
				passed.Add(1)
			}
		})
	}
	wait.Wait()
	return int(passed.Load())
}
