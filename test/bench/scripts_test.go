// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/store/redisstore"
	"github.com/weir-dev/weir/test/testenv"
)

const (
	scriptCallers = 64
	scriptKeys    = 10_000
)

// compareScripts compares the engine, in this process, with redis-benchmark running the same
// script for one check at a time.
func compareScripts(b *testing.B, s *section) {
	b.Helper()
	var rows [][]string
	for _, algorithm := range []plan.Algorithm{
		plan.FixedWindow, plan.SlidingLog, plan.SlidingWindow, plan.TokenBucket, plan.GCRA, plan.Suppressed,
	} {
		for _, limits := range []int{1, 4} {
			rows = append(rows, compareScript(b, algorithm, limits))
		}
	}
	s.table(fmt.Sprintf("%d callers over 10,000 keys, allowed; calls/s, and CPU time of Redis per check", scriptCallers), []string{
		"algorithm", "limits", "engine", "redis-benchmark", "share of redis-benchmark", "Redis CPU, engine", "Redis CPU, redis-benchmark",
		"allocations per decision",
	}, rows...)
	s.note("The engine shares commands between concurrent checks; redis-benchmark sends one command per\n" +
		"check. Allocations are counted for one decision without concurrent ones, with its share of the\n" +
		"Redis client.")
}

func compareScript(b *testing.B, algorithm plan.Algorithm, limits int) []string {
	b.Helper()
	server := testenv.StartRedis(b)
	defer server.Stop()
	e := newEngine(b, server, planOf(algorithm, limits))
	engineLoad := e.load(b)
	command := e.capture(b)
	half := *duration / 2
	var inProcess, benchmarked []*sample
	var shares []float64
	for round := range *rounds {
		inProcess = append(inProcess, measure(b, engineLoad, half))
		requests := int(inProcess[round].perSecond() * half.Seconds())
		benchmarked = append(benchmarked, redisBenchmark(b, server, requests, command))
		shares = append(shares, inProcess[round].perSecond()/benchmarked[round].perSecond())
	}
	e.expectNoFailures(b)
	return []string{
		string(algorithm), strconv.Itoa(limits),
		fmt.Sprintf("%.0f", medianOf(inProcess, (*sample).perSecond)), fmt.Sprintf("%.0f", medianOf(benchmarked, (*sample).perSecond)),
		spread(shares, "%.2f"), inMicros(medianOf(inProcess, redisCPU)), inMicros(medianOf(benchmarked, redisCPU)),
		fmt.Sprintf("%.0f", e.allocations(b)),
	}
}

// planOf returns a plan with limits that admit every check of a run.
func planOf(algorithm plan.Algorithm, limits int) *plan.Plan {
	p := &plan.Plan{
		Namespace: "bench", Name: "scripts", Mode: plan.ModeEnforce, OnMissingKey: plan.MissingKeyShare,
		Key:      []plan.KeyPart{{Type: plan.KeyHeader, Header: "x-user"}},
		Counting: plan.CountAdmitted, DenyWhen: plan.ThresholdExceeded, FailureMode: plan.FailClosed,
	}
	for i := range limits {
		l := plan.Limit{Name: fmt.Sprintf("l%d", i), Algorithm: algorithm, Threshold: 50_000, WindowMillis: 60_000}
		if algorithm.Refills() {
			l.Burst = 50_000
		}
		if algorithm.Buckets() {
			l.BucketMicros = 1_000_000
		}
		if algorithm == plan.Suppressed {
			l.HardLimitPercent = 150
		}
		p.Limits = append(p.Limits, l)
	}
	return p
}

// processEngine is an engine in this process.
type processEngine struct {
	*engine.Engine
	client redis.UniversalClient
	server *testenv.Redis
	seen   *lastCommand
}

func newEngine(tb testing.TB, server *testenv.Redis, p *plan.Plan) *processEngine {
	tb.Helper()
	client, err := redisclient.New(server.URL, time.Second)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	tb.Cleanup(func() { _ = client.Close() })
	e := &processEngine{client: client, server: server, seen: &lastCommand{}}
	client.AddHook(e.seen)
	e.Engine = engine.New(engine.Options{
		Store:      redisstore.NewStore(redisstore.Options{Client: client, Prefix: "weir:", Timeout: time.Second}),
		Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	e.Use(index.NewSnapshot(1, []*plan.Plan{p}))
	return e
}

// decide decides a check of a user.
func (e *processEngine) decide(ctx context.Context, user string) error {
	decision, err := e.Decide(ctx, &limiter.Check{
		Policies: []string{"bench/scripts"}, Cost: 1,
		Attributes: plan.Attributes{Headers: map[string]string{"x-user": user}},
	})
	if err == nil && !decision.Allowed {
		err = fmt.Errorf("%w: %s", errUnexpected, decision.Reason)
	}
	return err
}

// load returns the calls of concurrent callers.
func (e *processEngine) load(tb testing.TB) *load {
	tb.Helper()
	users := make([]string, scriptKeys)
	for i := range users {
		users[i] = userOf(i)
	}
	l := &load{name: "engine", target: &target{pid: os.Getpid(), redis: []int{e.server.Pid()}}}
	for i := range scriptCallers {
		l.calls = append(l.calls, func(ctx context.Context, n int) error {
			return e.decide(ctx, users[(i*997+n)%len(users)])
		})
	}
	return l
}

// allocations returns the number of allocations of one decision.
func (e *processEngine) allocations(tb testing.TB) float64 {
	tb.Helper()
	return testing.AllocsPerRun(1_000, func() {
		if err := e.decide(tb.Context(), userOf(0)); err != nil {
			tb.Fatal(err)
		}
	})
}

// capture returns the command of one check in which redis-benchmark replaces the user with a
// random number, in every key on its own.
func (e *processEngine) capture(tb testing.TB) []string {
	tb.Helper()
	g := NewWithT(tb)
	const user = "captured"
	g.Eventually(func() (string, error) {
		err := e.decide(tb.Context(), user)
		return e.seen.name(), err
	}).Should(Equal("EVALSHA"), "the script is loaded")
	args := e.seen.args()
	replaced := 0
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "{"+user+"}", "{__rand_int__}")
		if args[i] != arg {
			replaced++
		}
	}
	g.Expect(replaced).To(BeNumerically(">", 0), "the command has a key of the user: %q", args)
	g.Expect(e.client.ConfigResetStat(tb.Context()).Err()).To(Succeed())
	return args
}

var failedCalls = regexp.MustCompile(`cmdstat_eval.*(rejected|failed)_calls=[1-9]`)

// expectNoFailures checks that Redis ran every script since capture.
func (e *processEngine) expectNoFailures(tb testing.TB) {
	tb.Helper()
	stats, err := e.client.Info(tb.Context(), "commandstats").Result()
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	NewWithT(tb).Expect(failedCalls.FindString(stats)).To(BeEmpty())
}

// redisBenchmark runs the command with redis-benchmark.
func redisBenchmark(tb testing.TB, server *testenv.Redis, requests int, command []string) *sample {
	tb.Helper()
	g := NewWithT(tb)
	host, port, err := net.SplitHostPort(server.Addr)
	g.Expect(err).NotTo(HaveOccurred())
	args := append([]string{
		"-h", host, "-p", port, "--csv", "-c", strconv.Itoa(scriptCallers), "-n", strconv.Itoa(requests), "-r", strconv.Itoa(scriptKeys),
	}, command...)
	before := testenv.CPUTime(tb, server.Pid())
	output, err := testenv.Command("redis-benchmark", args...).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), "redis-benchmark: %s", output)
	m := &sample{redis: testenv.CPUTime(tb, server.Pid()) - before, latencies: make([]time.Duration, requests)}
	perSecond, err := benchmarkedRate(string(output))
	g.Expect(err).NotTo(HaveOccurred())
	m.took = time.Duration(float64(requests) / perSecond * float64(time.Second))
	return m
}

// benchmarkedRate returns the throughput that redis-benchmark printed. The last line is the
// command and seven numbers, the throughput first.
func benchmarkedRate(csv string) (float64, error) {
	lines := strings.Split(strings.TrimSpace(csv), "\n")
	fields := strings.Split(strings.Trim(lines[len(lines)-1], `"`), `","`)
	if len(fields) < 8 {
		return 0, fmt.Errorf("unexpected output of redis-benchmark: %q", csv)
	}
	return strconv.ParseFloat(fields[len(fields)-7], 64)
}

// lastCommand is a hook that remembers the last command that succeeded.
type lastCommand struct {
	mu  sync.Mutex
	cmd redis.Cmder
}

func (*lastCommand) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*lastCommand) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *lastCommand) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil {
			l.mu.Lock()
			l.cmd = cmd
			l.mu.Unlock()
		}
		return err
	}
}

func (l *lastCommand) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cmd == nil {
		return ""
	}
	return strings.ToUpper(l.cmd.Name())
}

// args returns the arguments of the command as it was sent.
func (l *lastCommand) args() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var texts []string
	for _, arg := range l.cmd.Args() {
		if value := reflect.ValueOf(arg); value.Kind() == reflect.Pointer {
			arg = value.Elem().Interface()
		}
		texts = append(texts, fmt.Sprint(arg))
	}
	return texts
}
