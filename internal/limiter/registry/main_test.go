// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/test/testenv"
)

const (
	testPrefix = "weir-test:"
	testOwner  = "weir-system/weir"
	testLease  = 5 * time.Second
)

func TestMain(m *testing.M) {
	callTimeout = 3 * time.Second // a busy machine stops Redis for longer than a second
	goleak.VerifyTestMain(m)
}

// cluster is a Redis with the leaders and replicas of a test.
type cluster struct {
	Gomega
	tb      testing.TB
	redis   *testenv.Redis // nil for a Redis Cluster
	connect func() (redis.UniversalClient, error)
	client  redis.UniversalClient
	scripts *scripts
}

func newCluster(tb testing.TB) *cluster {
	tb.Helper()
	return newClusterOn(tb, testenv.StartRedis(tb))
}

func newClusterOn(tb testing.TB, server *testenv.Redis) *cluster {
	tb.Helper()
	c := newClusterBy(tb, func() (redis.UniversalClient, error) {
		return redis.NewClient(&redis.Options{
			Addr: server.Addr, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		}), nil
	})
	c.redis = server
	return c
}

func newClusterBy(tb testing.TB, connect func() (redis.UniversalClient, error)) *cluster {
	tb.Helper()
	c := &cluster{
		Gomega: NewGomega(func(message string, _ ...int) {
			tb.Helper()
			tb.Fatal(message)
		}),
		tb: tb, connect: connect,
	}
	c.SetDefaultEventuallyTimeout(30 * time.Second) // no test is about speed
	c.SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	c.client = c.newClient()
	c.scripts = newScripts(c.client, testPrefix, nil)
	return c
}

func (c *cluster) newClient() redis.UniversalClient {
	c.tb.Helper()
	client, err := c.connect()
	c.Expect(err).NotTo(HaveOccurred())
	c.tb.Cleanup(func() { _ = client.Close() })
	return client
}

func logger(tb testing.TB, name string) *slog.Logger {
	tb.Helper()
	return slog.New(slog.NewTextHandler(tb.Output(), nil)).With("client", name)
}

// leader is a Writer that leads.
type leader struct {
	*Writer
	stop context.CancelFunc
	done chan struct{}
	err  error // valid once done is closed
}

// lead starts a leader and waits until it leads, but not for a registry with plans.
func (c *cluster) lead(owner string) *leader {
	c.tb.Helper()
	return c.leadAs(NewInstallation(owner, ""))
}

func (c *cluster) leadAs(installation *Installation) *leader {
	c.tb.Helper()
	return c.leadBy(NewWriter(c.newClient(), testPrefix, WriterOptions{
		Installation: installation, LeaseDuration: testLease,
		Logger: logger(c.tb, "leader "+installation.Name()), Registerer: prometheus.NewRegistry(),
	}))
}

func (c *cluster) leadBy(w *Writer) *leader {
	c.tb.Helper()
	ctx, stop := context.WithCancel(c.tb.Context())
	l := &leader{Writer: w, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.err = l.Lead(ctx, nil)
	}()
	c.tb.Cleanup(func() { stop(); <-l.done })
	c.Eventually(func() bool { return errors.Is(l.Err(), ErrNotLeading) }).Should(BeFalse())
	return l
}

// leadSynced leads with these plans and waits until they are published.
func (c *cluster) leadSynced(records ...plan.Record) *leader {
	c.tb.Helper()
	l := c.lead(testOwner)
	for _, r := range records {
		_ = l.Set(c.tb.Context(), r, plan.SetOptions{}) // an empty registry is filled below
	}
	l.MarkSynced(c.tb.Context())
	c.Eventually(l.Err).Should(Succeed())
	for _, r := range records {
		c.Expect(programmed(l, r.ID())).To(BeTrue())
	}
	return l
}

func programmed(l *leader, id string) bool {
	_, ok := l.programmed(id)
	return ok
}

// replica is a Watcher that keeps the snapshot it uses.
type replica struct {
	*Watcher
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	current *index.Snapshot
	fewest  int // number of plans in the smallest snapshot
}

func (c *cluster) watch(name string) *replica {
	c.tb.Helper()
	return c.watchAs(name, NewInstallation(testOwner, ""))
}

func (c *cluster) watchAs(name string, installation *Installation) *replica {
	c.tb.Helper()
	return c.watchWith(WatcherOptions{
		Installation: installation, Replica: name,
		Logger: logger(c.tb, name), Registerer: prometheus.NewRegistry(),
	})
}

func (c *cluster) watchWith(o WatcherOptions) *replica {
	c.tb.Helper()
	ctx, stop := context.WithCancel(c.tb.Context())
	r := &replica{stop: stop, done: make(chan struct{}), fewest: math.MaxInt}
	r.Watcher = NewWatcher(c.newClient(), testPrefix, o)
	go func() {
		defer close(r.done)
		_ = r.Start(ctx, r.use)
	}()
	c.tb.Cleanup(func() { stop(); <-r.done })
	return r
}

func (r *replica) use(s *index.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = s
	r.fewest = min(r.fewest, len(s.Plans()))
}

func (r *replica) snapshot() *index.Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// plans returns the number of plans the replica runs, or -1 without a snapshot.
func (r *replica) plans() int {
	if s := r.snapshot(); s != nil {
		return len(s.Plans())
	}
	return -1
}

func (r *replica) revision() int64 {
	if s := r.snapshot(); s != nil {
		return s.Revision()
	}
	return -1
}

// threshold returns the threshold of the plan, or 0 if the replica does not run it.
func (r *replica) threshold(id string) int64 {
	if s := r.snapshot(); s != nil && s.Lookup(id) != nil {
		return s.Lookup(id).Limits[0].Threshold
	}
	return 0
}

func (r *replica) fewestPlans() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fewest
}

func (r *replica) isFollowing() bool { return testutil.ToFloat64(r.metrics.following) == 1 }

// makePlan returns a plan in the namespace shop whose generation is its threshold.
func makePlan(name string, threshold int64) *plan.Plan {
	return &plan.Plan{
		Namespace: "shop", Name: name, UID: "uid-" + name, Generation: threshold,
		Mode: plan.ModeEnforce, OnMissingKey: plan.MissingKeyShare, Counting: plan.CountAdmitted,
		DenyWhen: plan.ThresholdExceeded, FailureMode: plan.FailOpen,
		Matches: []plan.Match{{Hosts: []string{name + ".example"}}},
		Limits: []plan.Limit{{
			Name: "all", Algorithm: plan.FixedWindow, Threshold: threshold, WindowMillis: 1000,
		}},
		Denial: plan.Denial{Code: "RateLimited", Message: "Slow down."},
	}
}

func makePlans(n int) []plan.Record {
	plans := make([]plan.Record, n)
	for i := range plans {
		plans[i] = makePlan(fmt.Sprintf("p%d", i), 5)
	}
	return plans
}

// aliveNow returns all live processes.
func (c *cluster) aliveNow() ([]heartbeat, error) {
	return c.scripts.alive(c.tb.Context(), c.header().now)
}

// header reads the epoch, version and term of the registry.
func (c *cluster) header() header {
	c.tb.Helper()
	h, _, err := c.scripts.heartbeat(c.tb.Context(), nil)
	c.Expect(err).NotTo(HaveOccurred())
	return h
}

// processes returns the names of the processes that are reported as alive.
func (c *cluster) processes() []string {
	return c.client.HKeys(c.tb.Context(), c.scripts.keys[3]).Val()
}

// leaderField returns the name under which the leader reports.
func (c *cluster) leaderField() string { return testOwner + "/leader/" + c.header().holder }

// depose takes the term from a leader, as if its process had been frozen for long.
func (c *cluster) depose() header {
	c.tb.Helper()
	before := c.header()
	c.Expect(c.client.HDel(c.tb.Context(), c.scripts.keys[3], testOwner+"/leader/"+before.holder).Err()).To(Succeed())
	next := &heartbeat{Owner: testOwner, Kind: kindLeader, Name: "successor"}
	taken, err := c.scripts.takeTerm(c.tb.Context(), next, 0, &before, []string{testOwner})
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(taken.holder).To(Equal("successor"))
	c.Expect(taken.term).To(BeNumerically(">", before.term))
	return taken
}

// backup saves the registry and the term, without the heartbeats.
func (c *cluster) backup() map[string]string {
	c.tb.Helper()
	saved := map[string]string{}
	for _, key := range []string{c.scripts.keys[0], c.scripts.keys[1], c.scripts.keys[2], c.scripts.keys[4]} {
		dump, err := c.client.Dump(c.tb.Context(), key).Result()
		if !errors.Is(err, redis.Nil) {
			c.Expect(err).NotTo(HaveOccurred())
		}
		saved[key] = dump
	}
	return saved
}

// restore replaces the registry with a backup.
func (c *cluster) restore(saved map[string]string) {
	c.tb.Helper()
	_, err := c.client.TxPipelined(c.tb.Context(), func(tx redis.Pipeliner) error {
		for key, dump := range saved {
			tx.Del(c.tb.Context(), key)
			if dump != "" {
				tx.Restore(c.tb.Context(), key, 0, dump)
			}
		}
		return nil
	})
	c.Expect(err).NotTo(HaveOccurred())
}

// encoded returns the entry that the Writer keeps for the record.
func encoded(c *cluster, p plan.Record) *entry {
	data, err := plan.Encode(p)
	c.Expect(err).NotTo(HaveOccurred())
	return newEntry(p, data)
}
