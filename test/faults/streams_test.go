// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Streams whose cost is known only at their end: they use an estimate that is an upper bound.
const (
	streamers    = 64
	budget       = 150_000
	mostUnits    = 100
	streamPolicy = `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: tokens, namespace: faults}
spec:
  failureMode: Closed
  reservations: {maxTTL: 10m, maxOpen: 1000}
  limits: [{name: hourly, algorithm: FixedWindow, threshold: %d, window: 1h}]
`
)

// streams spend the budget of one key through several processes.
type streams struct {
	t       *testing.T
	targets []*weir
	client  *http.Client
	next    atomic.Int64
	number  atomic.Int64
	spent   atomic.Int64
	resent  atomic.Int64
	over    atomic.Bool // the budget has no room
}

// streamAnswer is what the streams read from answers.
type streamAnswer struct {
	Allowed     bool   `json:"allowed"`
	Reason      string `json:"reason"`
	Reservation string `json:"reservation"`
	WaitsFor    string `json:"waitsFor"`
	Limits      []struct {
		Used int64 `json:"used"`
		Held int64 `json:"held"`
	} `json:"limits"`
}

// call posts the body until a process answers it: after a lost connection, a lost reply or a
// process that is gone, with the same ID.
func (s *streams) call(path, body string) (answer streamAnswer) {
	for s.t.Context().Err() == nil {
		target := s.targets[int(s.next.Add(1))%len(s.targets)]
		response, err := s.client.Post("http://"+target.address+path, "application/json", strings.NewReader(body))
		if err == nil {
			text, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err == nil && response.StatusCode < 500 {
				if err := json.Unmarshal(text, &answer); err != nil || response.StatusCode != http.StatusOK && response.StatusCode != http.StatusTooManyRequests {
					s.t.Errorf("%s %s: %d %s", path, body, response.StatusCode, text)
				}
				return answer
			}
		}
		s.resent.Add(1)
		time.Sleep(time.Duration(1+rand.IntN(5)) * time.Millisecond) // a client that tries again
	}
	return answer
}

// reserve runs one stream that reserves its estimate and commits its cost.
func (s *streams) reserve() {
	estimate := 1 + rand.Int64N(mostUnits)
	answer := s.call("/v1/reserve", fmt.Sprintf(`{"policies":["faults/tokens"],"key":"team","cost":%d,"ttl":"10m","id":"s-%d"}`, estimate, s.number.Add(1)))
	if !answer.Allowed {
		if answer.WaitsFor == "" {
			s.over.Store(true)
		}
		return
	}
	cost := rand.Int64N(estimate + 1)
	s.call("/v1/commit", fmt.Sprintf(`{"reservation":%q,"cost":%d}`, answer.Reservation, cost))
	s.spent.Add(cost)
}

// checkAndCharge runs one stream that asks first and charges its cost at its end.
func (s *streams) checkAndCharge() {
	answer := s.call("/v1/check", `{"policies":["faults/tokens"],"key":"team","cost":1,"peek":true}`)
	if !answer.Allowed {
		s.over.Store(true)
		return
	}
	cost := rand.Int64N(mostUnits)
	s.call("/v1/charge", fmt.Sprintf(`{"policies":["faults/tokens"],"key":"team","cost":%d,"id":"c-%d"}`, 1+cost, s.number.Add(1)))
	s.spent.Add(1 + cost)
}

// run runs streams until the budget has no room.
func (s *streams) run(stream func()) {
	var wait sync.WaitGroup
	for range streamers {
		wait.Go(func() {
			for !s.over.Load() && s.t.Context().Err() == nil {
				stream()
			}
		})
	}
	wait.Wait()
}

// used returns the used and the held units of the budget.
func (s *streams) used() (used, held int64) {
	answer := s.call("/v1/check", `{"policies":["faults/tokens"],"key":"team","cost":1,"peek":true}`)
	if len(answer.Limits) != 1 {
		s.t.Fatalf("answer %+v", answer)
	}
	return answer.Limits[0].Used, answer.Limits[0].Held
}

// startStreams starts four processes on one Redis, through a proxy.
func startStreams(t *testing.T) (*streams, *single) {
	t.Helper()
	one := startSingle(t)
	folder, err := os.MkdirTemp("", "weir-streams-") //nolint:usetesting // the flag takes a list, and TempDir may have commas
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	policy := fmt.Sprintf(streamPolicy, budget)
	NewWithT(t).Expect(os.WriteFile(filepath.Join(folder, "policies.yaml"), []byte(policy), 0o600)).To(Succeed())
	s := &streams{t: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streamers}, Timeout: 5 * time.Second}}
	t.Cleanup(s.client.CloseIdleConnections)
	for range 4 {
		s.targets = append(s.targets, startProcess(t, "standalone", "--policies", folder, "--redis-url", "redis://"+one.proxy.Addr,
			"--store-timeout", lossyTimeout.String()))
	}
	return s, one
}

// Four processes, 64 streams, processes killed and replies lost: with reservations the budget is
// never exceeded, and every cost counts once. Asking first and charging at the end exceeds it.
func TestStreamsKeepTheirBudget(t *testing.T) {
	g := NewWithT(t)
	s, one := startStreams(t)
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(200 * time.Millisecond):
			}
			one.proxy.ResetReplies()
			s.targets[i%len(s.targets)].stop(syscall.SIGKILL)
			one.proxy.Heal()
			s.targets[i%len(s.targets)].start()
		}
	})
	s.run(s.reserve)
	close(done)
	wait.Wait()
	used, held := s.used()
	t.Logf("reservations: %d streams, %d calls sent again, used %d of %d, spent %d", s.number.Load(), s.resent.Load(), used, int64(budget), s.spent.Load())
	g.Expect(held).To(BeZero())
	g.Expect(used).To(Equal(s.spent.Load()), "each cost counts once")
	g.Expect(used).To(And(BeNumerically("<=", budget), BeNumerically(">", budget-mostUnits*streamers)))
	g.Expect(s.resent.Load()).To(BeNumerically(">", 0), "calls were lost")
}

func TestChecksAndChargesExceedTheBudget(t *testing.T) {
	s, _ := startStreams(t)
	s.run(s.checkAndCharge)
	used, _ := s.used()
	t.Logf("check and charge: %d streams, used %d of %d", s.number.Load(), used, int64(budget))
	g := NewWithT(t)
	g.Expect(used).To(Equal(s.spent.Load()), "each cost counts once")
	g.Expect(used).To(BeNumerically(">", budget), "what this is about")
	g.Expect(used).To(BeNumerically("<=", budget+streamers*mostUnits))
}
