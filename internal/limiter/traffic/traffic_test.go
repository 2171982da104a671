// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

const testKey = "weir:{registry}:traffic"

// replica is a Reporter that is not started, with a clock of its own.
type replica struct {
	*Reporter

	marked []*Sightings
	now    time.Time
	log    *bytes.Buffer
}

// newReplica returns a replica with plans of these names.
func newReplica(t *testing.T, client redis.UniversalClient, names ...string) *replica {
	t.Helper()
	r := &replica{now: time.Unix(1_000_000, 0), log: &bytes.Buffer{}}
	for _, name := range names {
		s := NewSightings(planOf(name))
		r.marked = append(r.marked, &s)
	}
	r.Reporter = NewReporter(Options{
		Redis: client, Prefix: "weir:", Now: func() time.Time { return r.now },
		Logger: slog.New(slog.NewTextHandler(r.log, nil)),
		Each: func(visit func(*Sightings)) {
			for _, s := range r.marked {
				visit(s)
			}
		},
	})
	return r
}

func planOf(name string) *plan.Plan {
	return &plan.Plan{Namespace: "a", Name: name, UID: name, Matches: []plan.Match{{Domain: "edge"}}}
}

// mark marks all plans.
func (r *replica) mark() {
	for _, s := range r.marked {
		s.Mark()
	}
}

func connect(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	client, err := redisclient.New(url, time.Minute)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// policiesIn returns the IDs of the sightings.
func policiesIn(list []plan.Sighting) []string {
	ids := []string{}
	for _, s := range list {
		ids = append(ids, s.Policy)
	}
	return ids
}

func TestReportsAreRead(t *testing.T) {
	g := NewWithT(t)
	client := connect(t, testenv.StartRedis(t).URL)
	r, reader := newReplica(t, client, "x", "y"), NewReader(client, "weir:")
	g.Expect(reader.Read(t.Context(), time.Time{})).To(BeEmpty())

	r.marked[1].Mark()
	r.report(t.Context())
	list, err := reader.Read(t.Context(), time.Time{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list).To(HaveLen(1))
	g.Expect(list[0].At).To(BeTemporally("~", time.Now(), 30*time.Second))
	list[0].At = time.Time{}
	g.Expect(list[0]).To(Equal(plan.Sighting{Policy: "a/y", Selectors: planOf("y").Selectors()}))
	g.Expect(reader.Read(t.Context(), time.Now().Add(time.Hour))).To(BeEmpty())
	g.Expect(client.PTTL(t.Context(), testKey).Val()).To(BeNumerically("~", sightingSet.life, time.Minute))
}

func TestOneReportAMinute(t *testing.T) {
	g := NewWithT(t)
	client := connect(t, testenv.StartRedis(t).URL)
	r := newReplica(t, client, "x")
	reported := func() bool {
		client.Del(t.Context(), testKey)
		r.mark()
		r.report(t.Context())
		return client.Exists(t.Context(), testKey).Val() == 1
	}
	g.Expect(reported()).To(BeTrue())
	for range 59 {
		r.now = r.now.Add(time.Second)
		g.Expect(reported()).To(BeFalse())
	}
	r.now = r.now.Add(time.Second)
	g.Expect(reported()).To(BeFalse(), "the check that follows is reported")
	r.now = r.now.Add(time.Second)
	g.Expect(reported()).To(BeTrue())

	r.now = r.now.Add(time.Hour)
	client.Del(t.Context(), testKey)
	r.report(t.Context())
	r.report(t.Context())
	g.Expect(client.Exists(t.Context(), testKey).Val()).To(BeZero(), "without a check there is no report")
}

// The metric keeps the time of the last report, also while the next check is awaited.
func TestTimeOfTheLastReport(t *testing.T) {
	g := NewWithT(t)
	s, now := targetedSightings(), time.Unix(1_800_000_000, 0)
	r := NewReporter(Options{
		Redis: connect(t, testenv.StartRedis(t).URL), Prefix: "weir:", Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return now }, Each: func(visit func(*Sightings)) { visit(&s) },
	})
	exposed := func() string {
		registry := prometheus.NewRegistry()
		registry.MustRegister(r)
		families, err := registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		var text strings.Builder
		for _, family := range families {
			for _, m := range family.GetMetric() {
				fmt.Fprintf(&text, "%s %.0f\n", m.GetLabel()[2].GetValue(), m.GetGauge().GetValue())
			}
		}
		return text.String()
	}
	g.Expect(exposed()).To(BeEmpty())
	s.Mark()
	s.MarkTargets([]plan.Target{"HTTPRoute/a/shop/rule"})
	now = now.Add(5 * time.Second)
	r.report(t.Context())
	g.Expect(exposed()).To(Equal("HTTPRoute/a/shop 1800000005\n"))
	now = now.Add(time.Hour)
	r.report(t.Context())
	g.Expect(exposed()).To(Equal("HTTPRoute/a/shop 1800000005\n"))
	s.MarkTargets([]plan.Target{"HTTPRoute/a/shop", "Gateway/a/public"})
	r.report(t.Context())
	g.Expect(exposed()).To(Equal("Gateway/a/public 1800003605\nHTTPRoute/a/shop 1800003605\n"))
}

func TestReportsComeInBatches(t *testing.T) {
	g := NewWithT(t)
	client := connect(t, testenv.StartRedis(t).URL)
	names := make([]string, 2*batchSize+1)
	for i := range names {
		names[i] = fmt.Sprint("p", i)
	}
	r := newReplica(t, client, names...)
	r.mark()
	r.report(t.Context())
	calls := client.Info(t.Context(), "commandstats").Val()
	g.Expect(calls).To(MatchRegexp(`cmdstat_eval(sha)?:calls=[1-4],`))
	g.Expect(NewReader(client, "weir:").Read(t.Context(), time.Time{})).To(HaveLen(len(names)))
}

func TestOldAndSurplusReportsGo(t *testing.T) {
	g := NewWithT(t)
	server, clock := testenv.StartRedisWithClock(t)
	client := connect(t, server.URL)
	reader := NewReader(client, "weir:")
	send := func(most int, members ...any) {
		args := append([]any{sightingSet.life.Milliseconds(), most}, members...)
		g.Expect(reportScript.Run(t.Context(), client, []string{testKey}, args...).Err()).To(Or(Succeed(), MatchError(redis.Nil)))
	}
	read := func() []string {
		list, err := reader.Read(t.Context(), time.Time{})
		g.Expect(err).NotTo(HaveOccurred())
		return policiesIn(list)
	}
	clock.Set(time.Unix(2_000_000_000, 0))
	send(3, "a/1 s ")
	clock.Advance(time.Hour)
	send(3, "a/2 s ")
	clock.Advance(time.Hour)
	send(3, "a/3 s ")
	g.Expect(read()).To(Equal([]string{"a/1", "a/2", "a/3"}))
	clock.Advance(time.Millisecond)
	send(3, "a/4 s ")
	g.Expect(read()).To(Equal([]string{"a/2", "a/3", "a/4"}), "the oldest makes room")
	clock.Advance(23 * time.Hour)
	send(3, "a/4 s ")
	g.Expect(read()).To(Equal([]string{"a/3", "a/4"}), "a/2 is 24 hours old")
	clock.Advance(sightingSet.life + time.Millisecond)
	g.Expect(client.Exists(t.Context(), testKey).Val()).To(BeZero())
}

// While Redis hangs, nothing waits and nothing piles up.
func TestReportsWaitForRedis(t *testing.T) {
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	proxy := testenv.StartNetwork(t, server.Addr)
	r := newReplica(t, connect(t, "redis://"+proxy.Addr), "x", "y")
	r.mark()
	proxy.BlackHole()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		r.report(ctx)
		cancel()
		r.mark()
		g.Expect(r.sightings).To(HaveLen(2))
	}
	proxy.Heal()
	reader := NewReader(connect(t, server.URL), "weir:")
	g.Eventually(func() ([]plan.Sighting, error) {
		r.report(t.Context())
		return reader.Read(t.Context(), time.Time{})
	}).Should(HaveLen(2))
}

func TestFailureIsLoggedOnce(t *testing.T) {
	g := NewWithT(t)
	server := testenv.StartRedis(t)
	r := newReplica(t, connect(t, server.URL), "x")
	server.Stop()
	r.mark()
	r.report(t.Context())
	r.report(t.Context())
	g.Expect(bytes.Count(r.log.Bytes(), []byte("Failed to report"))).To(Equal(1))
}

func TestStartReportsAtItsEnd(t *testing.T) {
	g := NewWithT(t)
	client := connect(t, testenv.StartRedis(t).URL)
	r := newReplica(t, client, "x")
	r.mark()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(r.Start(ctx)).To(Succeed())
	g.Expect(client.ZCard(t.Context(), testKey).Val()).To(BeEquivalentTo(1))
}

// Pages neither lose nor repeat members, even if thousands have one time.
func TestReaderReadsPages(t *testing.T) {
	g := NewWithT(t)
	client := connect(t, testenv.StartRedis(t).URL)
	const all = 3*pageSize + 10
	members := make([]redis.Z, all)
	for i := range members {
		at := 1000 // more than a page at one time
		if i > 2*pageSize+5 {
			at = i
		}
		members[i] = redis.Z{Score: float64(at), Member: fmt.Sprintf("a/p%d s t", i)}
	}
	g.Expect(client.ZAdd(t.Context(), testKey, members...).Err()).To(Succeed())
	g.Expect(client.ZAdd(t.Context(), testKey, redis.Z{Score: 1, Member: "written by somebody else"}).Err()).To(Succeed())
	list, err := NewReader(client, "weir:").Read(t.Context(), time.Time{})
	g.Expect(err).NotTo(HaveOccurred())
	ids := map[string]bool{}
	for _, s := range list {
		ids[s.Policy] = true
		g.Expect(s.Target).To(Equal(plan.Target("t")))
	}
	g.Expect(list).To(HaveLen(all))
	g.Expect(ids).To(HaveLen(all))
}

// Marks of many decisions race with reports.
func TestMarksRaceWithReports(t *testing.T) {
	g := NewWithT(t)
	client := connect(t, testenv.StartRedis(t).URL)
	r := newReplica(t, client, "x", "y", "z")
	var decisions sync.WaitGroup
	for range 4 {
		decisions.Go(func() {
			for range 1000 {
				r.mark()
			}
		})
	}
	for range 20 {
		r.now = r.now.Add(time.Minute)
		r.report(t.Context())
	}
	decisions.Wait()
	r.report(t.Context())
	g.Expect(client.ZCard(t.Context(), testKey).Val()).To(BeEquivalentTo(3))
}

func TestMarkAllocatesNothing(t *testing.T) {
	g := NewWithT(t)
	s := NewSightings(planOf("x"))
	g.Expect(testing.AllocsPerRun(100, s.Mark)).To(BeZero())
	s = targetedSightings()
	through := []plan.Target{"Gateway/a/public", "HTTPRoute/a/shop/checkout"}
	g.Expect(testing.AllocsPerRun(100, func() {
		s.MarkTargets(through)
		s.targets[0].Store(unseen)
	})).To(BeZero())
	g.Expect(s.targets[1].Load()).To(Equal(seen))
}

func targetedSightings() Sightings {
	targets := []plan.Target{"HTTPRoute/a/shop", "Gateway/a/public"}
	return NewSightings(&plan.Plan{Namespace: "a", Name: "x", Matches: []plan.Match{{Targets: targets}, {Domain: "edge", Targets: targets}}})
}

// However many targets callers send, a plan records only its own.
func TestHostileTargetsTakeNoMemory(t *testing.T) {
	g := NewWithT(t)
	s := targetedSightings()
	g.Expect(testing.AllocsPerRun(1, func() {
		through := []plan.Target{""}
		for i := range 1_000_000 {
			through[0] = hostileTargets[i%len(hostileTargets)]
			s.MarkTargets(through)
		}
	})).To(BeNumerically("<=", 1))
	g.Expect(s.targets).To(HaveLen(2))
	s.each(func(_ plan.Target, of *state) { g.Expect(of.Load()).To(Equal(unseen)) })
}

var hostileTargets = []plan.Target{"", "/", "HTTPRoute/a/shop2", "HTTPRoute/b/shop", "Gateway/a/shop", "GRPCRoute/a/shop"}

func BenchmarkMark(b *testing.B) {
	s, targeted := NewSightings(planOf("x")), targetedSightings()
	through := []plan.Target{"Gateway/a/public", "HTTPRoute/a/shop/checkout"}
	for name, mark := range map[string]func(){"untargeted": s.Mark, "targets": func() { targeted.MarkTargets(through) }} {
		b.Run(name, func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					mark()
				}
			})
		})
	}
}

// BenchmarkCollect measures a round with 10,000 policies that were reported less than a minute ago.
func BenchmarkCollect(b *testing.B) {
	r := &Reporter{}
	all := make([]*Sightings, 10_000)
	for i := range all {
		s := NewSightings(planOf(fmt.Sprint("p", i)))
		s.untargeted.Store(firstSecond)
		all[i] = &s
	}
	r.o.Each = func(visit func(*Sightings)) {
		for _, s := range all {
			visit(s)
		}
	}
	for b.Loop() {
		r.collect(firstSecond + 1)
	}
}
