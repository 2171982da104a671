// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package unsent_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/envoyrls/unsent"
)

// redis answers commits, or fails those for the key parts that are down.
type redis struct {
	mu   sync.Mutex
	down map[string]bool
	all  bool // everything is down
	err  error
	gone bool
	sent []string // the IDs, in order
	most int      // the most commits at once
	now  int
}

func (r *redis) Commit(_ context.Context, c *limiter.Commit) (*limiter.Committed, error) {
	r.mu.Lock()
	r.now++
	r.most = max(r.most, r.now)
	r.mu.Unlock()
	time.Sleep(time.Millisecond) // of the bubble
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	if r.all || r.down[c.Reservation.Holds[0].Key[0]] {
		return nil, fmt.Errorf("%w: timeout", limiter.ErrStoreUnavailable)
	}
	if r.err != nil {
		return nil, r.err
	}
	r.sent = append(r.sent, c.Reservation.ID)
	return &limiter.Committed{Policies: []limiter.CommittedPolicy{{Policy: "a/x", Gone: r.gone, Committed: !r.gone}}}, nil
}

func (r *redis) set(edit func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	edit()
}

// ids returns the IDs of the commits that were answered.
func (r *redis) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sent)
}

// charge returns a charge of one unit.
func charge(id, key string) []limiter.Commit {
	return []limiter.Commit{{Cost: 1, Reservation: &limiter.Reservation{
		ID: id, Charged: true, Holds: []limiter.Hold{{Policy: "a/x", Key: []string{key}, Units: 1}},
	}}}
}

// bubble runs the test with charges that are sent to r, in fake time.
func bubble(t *testing.T, test func(t *testing.T, r *redis, c *unsent.Charges, counts func() string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		r, registry := &redis{down: map[string]bool{}}, prometheus.NewRegistry()
		c := unsent.New(unsent.Options{Committer: r, Registerer: registry, Logger: slog.New(slog.DiscardHandler)})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		test(t, r, c, func() string {
			families, err := registry.Gather()
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			counts := map[string]float64{}
			for _, m := range families[0].GetMetric() {
				counts[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
			return fmt.Sprintf("kept %v, sent %v, dropped %v", counts["kept"], counts["sent"], counts["dropped"])
		})
		stop()
		NewWithT(t).Expect(<-ended).To(Succeed())
	})
}

func TestChargesAreSentWhenRedisAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, r *redis, c *unsent.Charges, counts func() string) {
		t.Helper()
		g := NewWithT(t)
		r.all = true
		for i := range 100 {
			c.Keep(charge(fmt.Sprint("c-", i), "alice"))
		}
		time.Sleep(50 * time.Second)
		g.Expect(counts()).To(Equal("kept 100, sent 0, dropped 0"))
		r.set(func() { r.all = false })
		time.Sleep(time.Second)
		g.Expect(counts()).To(Equal("kept 100, sent 100, dropped 0"))
		g.Expect(r.ids()).To(HaveLen(100))
		g.Expect(r.most).To(Equal(16), "several at once")
		time.Sleep(time.Minute)
		g.Expect(r.ids()).To(HaveLen(100), "none is sent twice")
	})
}

func TestChargesAreDroppedAfterAMinute(t *testing.T) {
	bubble(t, func(t *testing.T, r *redis, c *unsent.Charges, counts func() string) {
		t.Helper()
		g := NewWithT(t)
		r.all = true
		c.Keep(charge("c-1", "alice"))
		time.Sleep(30 * time.Second)
		c.Keep(charge("c-2", "alice"))
		time.Sleep(31 * time.Second)
		r.set(func() { r.all = false })
		time.Sleep(time.Second)
		g.Expect(r.ids()).To(Equal([]string{"c-2"}))
		g.Expect(counts()).To(Equal("kept 2, sent 1, dropped 1"))
	})
}

// A node of a cluster that is down does not hold up the charges for other nodes.
func TestChargesForOtherNodes(t *testing.T) {
	bubble(t, func(t *testing.T, r *redis, c *unsent.Charges, counts func() string) {
		t.Helper()
		r.down["alice"] = true
		for i := range 200 {
			c.Keep(charge(fmt.Sprint("c-", i), "alice"))
		}
		c.Keep(charge("other", "bob"))
		time.Sleep(5 * time.Second)
		NewWithT(t).Expect(counts()).To(Equal("kept 201, sent 1, dropped 0"))
	})
}

func TestChargesAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		key  string
		keep int
		want string
	}{
		"by number": {"alice", 65_537, "kept 65537, sent 0, dropped 1"},
		"by bytes":  {strings.Repeat("k", 1<<20), 40, "kept 40, sent 0, dropped 12"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *redis, c *unsent.Charges, counts func() string) {
				t.Helper()
				g := NewWithT(t)
				r.all = true
				for range tc.keep {
					c.Keep(charge("c", tc.key))
				}
				g.Expect(counts()).To(Equal(tc.want))
				time.Sleep(61 * time.Second)
				c.Keep(charge("later", tc.key))
				r.set(func() { r.all = false })
				time.Sleep(time.Second)
				g.Expect(r.ids()).To(Equal([]string{"later"}), "there is room again")
			})
		})
	}
}

// Charges that can never be made are dropped.
func TestChargesOfChangedPolicies(t *testing.T) {
	for name, edit := range map[string]func(*redis){
		"a deleted policy": func(r *redis) { r.gone = true },
		"another key":      func(r *redis) { r.err = &limiter.FieldError{Field: "reservation", Problem: "has holds[0].key"} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *redis, c *unsent.Charges, counts func() string) {
				t.Helper()
				edit(r)
				c.Keep(charge("c-1", "alice"))
				time.Sleep(time.Second)
				NewWithT(t).Expect(counts()).To(Equal("kept 1, sent 0, dropped 1"))
			})
		})
	}
}

func TestRestIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		r, registry := &redis{down: map[string]bool{"bob": true}}, prometheus.NewRegistry()
		c := unsent.New(unsent.Options{Committer: r, Registerer: registry, Logger: slog.New(slog.DiscardHandler)})
		c.Keep(charge("c-1", "alice"))
		c.Keep(charge("c-2", "bob"))
		c.SendRest(t.Context())
		g.Expect(r.ids()).To(Equal([]string{"c-1"}))
		g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(`# HELP weir_kept_charges_total Charges and commits of Envoy that Redis did not answer, by outcome.
# TYPE weir_kept_charges_total counter
weir_kept_charges_total{outcome="dropped"} 1
weir_kept_charges_total{outcome="kept"} 2
weir_kept_charges_total{outcome="sent"} 1
`))).To(Succeed())
		c.SendRest(t.Context())
		g.Expect(r.ids()).To(HaveLen(1))
	})
}

// A charge whose caller was canceled is sent again.
func TestChargesThatWereCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &redis{err: errors.New("canceled")}
		c := unsent.New(unsent.Options{Committer: r, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
		c.Keep(charge("c-1", "alice"))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(250*time.Millisecond + time.Microsecond); cancel() }()
		NewWithT(t).Expect(c.Start(ctx)).To(Succeed())
		r.set(func() { r.err = nil })
		c.SendRest(t.Context())
		NewWithT(t).Expect(r.ids()).To(Equal([]string{"c-1"}))
	})
}

// heapGrowth returns by how many bytes the heap is larger after the work than before.
func heapGrowth(work func()) int64 {
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC() // frees what finalizers of the first one released
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heap()
	work()
	return heap() - before
}

// A charge must not keep the request alive that it came with.
func TestKeptChargesTakeLittleMemory(t *testing.T) {
	const bound = 32 << 20
	for name, tc := range map[string]struct {
		charges, requestBytes, keyBytes int
	}{
		"of large requests":   {5_000, 64 << 10, 20},
		"the largest number":  {70_000, 40, 20},
		"with very long keys": {1_000, 64 << 10, 60 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			c := unsent.New(unsent.Options{
				Committer: &redis{all: true}, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
			})
			growth := heapGrowth(func() {
				for i := range tc.charges {
					request := fmt.Sprintf("%08d", i) + strings.Repeat("x", tc.requestBytes)
					c.Keep(charge(request[:8], request[8:8+tc.keyBytes]))
				}
			})
			NewWithT(t).Expect(growth).To(BeNumerically("<", bound))
			runtime.KeepAlive(c)
		})
	}
}
