// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/process"
)

// stubPatchDelay is the time of one status patch on the stub.
const stubPatchDelay = 10 * time.Millisecond

// stubQuiet is the time without patches after which no more are expected.
const stubQuiet = 2 * time.Second

// stubPolicies is the environment variable that makes the program of these tests a stubAPI. Its
// value is the number of policies. The program prints the URL.
const stubPolicies = "WEIR_TEST_STUB_POLICIES"

// BenchmarkStatusWrites compares decisions while thousands of statuses are written with
// decisions of a quiet process. The API server is a stub that takes 10 ms for a patch. It is a
// process of its own with the lowest priority, so that only the CPU of Weir counts. Use an odd
// number of rounds, such as -benchtime 5x.
func BenchmarkStatusWrites(b *testing.B) {
	const policies = 5000
	g := NewWithT(b)
	stub := startStubAPI(b, policies)
	c := &cluster{tb: b, redis: testenv.StartRedis(b), kubeconfig: stub.kubeconfig}
	p := c.manager("--max-namespace-policies", "0", "--max-namespace-plan-bytes", "0") // they share one Namespace
	g.Eventually(func() int { return policiesOf(p) }, process.Timeout, "100ms").Should(Equal(policies))
	g.Eventually(stub.patches, process.Timeout, "100ms").Should(BeNumerically(">=", policies))
	var ratios []float64
	for b.Loop() {
		stub.awaitQuiet()
		quiet := latencies(b, p, func() bool { return true }, 3000)
		before := stub.patches()
		stub.touch()
		g.Eventually(stub.patches, process.Timeout, "1ms").Should(BeNumerically(">", before+50))
		start := time.Now()
		during := latencies(b, p, func() bool { return stub.patches() < before+policies }, 1<<20)
		b.ReportMetric((policies-50)/time.Since(start).Seconds(), "patches/s")
		stub.awaitQuiet()
		b.ReportMetric(float64(stub.patches()-before)/policies, "patches/policy")
		b.ReportMetric(quiet.Seconds()*1000, "quiet-p99-ms")
		b.ReportMetric(during.Seconds()*1000, "busy-p99-ms")
		ratios = append(ratios, during.Seconds()/quiet.Seconds())
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "median-ratio")
}

// latencies sends 500 checks a second, at most n and while the condition holds, and returns the
// 99th percentile of their times.
func latencies(b *testing.B, p *process.Running, while func() bool, n int) time.Duration {
	b.Helper()
	every := time.NewTicker(2 * time.Millisecond)
	defer every.Stop()
	var took []time.Duration
	for len(took) < n && (len(took)%100 > 0 || while()) {
		<-every.C
		start := time.Now()
		if _, _, err := p.Check(`{"policies":["shop/p1"],"key":"k","peek":true}`); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// stubProcess is a running process that serves a stubAPI.
type stubProcess struct {
	tb         testing.TB
	url        string
	kubeconfig string
}

func startStubAPI(tb testing.TB, policies int) *stubProcess {
	tb.Helper()
	cmd := testenv.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", stubPolicies, policies))
	output, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, cmd.Process.Pid, 19); err != nil {
		tb.Fatal(err)
	}
	url, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	s := &stubProcess{tb: tb, url: strings.TrimSpace(url), kubeconfig: filepath.Join(tb.TempDir(), "stub")}
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],`+
		`"contexts":[{"name":"c","context":{"cluster":"c","user":""}}]}`, s.url)
	if err := os.WriteFile(s.kubeconfig, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	return s
}

// touch requests a pass over every policy.
func (s *stubProcess) touch() { s.ask("touch") }

// patches returns how many statuses were patched.
func (s *stubProcess) patches() int {
	patches, err := strconv.Atoi(s.ask("patches"))
	if err != nil {
		s.tb.Fatal(err)
	}
	return patches
}

func (s *stubProcess) ask(path string) string {
	s.tb.Helper()
	response, err := http.Get(s.url + "/stub/" + path)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		s.tb.Fatal(err)
	}
	return string(body)
}

// awaitQuiet waits until no status was written for stubQuiet.
func (s *stubProcess) awaitQuiet() { s.ask("quiet") }

// stubAPI is an API server with policies in memory, for one process.
type stubAPI struct {
	patches atomic.Int64  // of statuses
	patched chan struct{} // receives after each of them, unless it is full

	mu       sync.Mutex
	version  int
	policies []*stubPolicy
	lease    []byte
	watches  map[chan []byte]bool
}

// stubPolicy is a policy of a stubAPI.
type stubPolicy struct {
	number, version int
	requested       int // the value of an annotation; 0 is none
	status          json.RawMessage
}

// encode returns the policy as JSON.
func (p *stubPolicy) encode() json.RawMessage {
	annotations := ""
	if p.requested > 0 {
		annotations = fmt.Sprintf(`"annotations":{"ratelimit.weir.dev/reconcile-requested-at":"%d"},`, p.requested)
	}
	return fmt.Appendf(nil, `{"apiVersion":"ratelimit.weir.dev/v1alpha1","kind":"RateLimitPolicy","metadata":{"namespace":"shop",`+
		`"name":"p%[1]d","uid":"uid-%[1]d",%[2]s"generation":1,"resourceVersion":"%[3]d"},"spec":{"limits":[{"name":"l",`+
		`"algorithm":"FixedWindow","threshold":1,"window":"1h"}]},"status":%[4]s}`, p.number, annotations, p.version, p.status)
}

// serveStubAPI serves a stubAPI until the process is killed.
func serveStubAPI(policies int) {
	s := &stubAPI{watches: map[chan []byte]bool{}, version: 1, patched: make(chan struct{}, 1)}
	for i := range policies {
		s.policies = append(s.policies, &stubPolicy{number: i, version: 1, status: json.RawMessage(`{"observedGeneration":-1}`)})
	}
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.HandleFunc("/stub/touch", func(http.ResponseWriter, *http.Request) { s.touch() })
	mux.HandleFunc("/stub/patches", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, s.patches.Load()) })
	mux.HandleFunc("/stub/quiet", func(http.ResponseWriter, *http.Request) { s.awaitQuiet() })
	_, _ = fmt.Fprintln(os.Stdout, httptest.NewServer(mux).URL)
	select {}
}

// awaitQuiet returns when nothing was patched for stubQuiet.
func (s *stubAPI) awaitQuiet() {
	for {
		select {
		case <-s.patched:
		case <-time.After(stubQuiet):
			return
		}
	}
}

func (s *stubAPI) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, policy := range s.policies {
		s.version++
		policy.requested, policy.version = s.version, s.version
		s.announce(policy)
	}
}

// announce sends the policy to the watches. The caller holds the lock.
func (s *stubAPI) announce(policy *stubPolicy) {
	line := fmt.Appendf(nil, `{"type":"MODIFIED","object":%s}`+"\n", policy.encode())
	for watch := range s.watches {
		watch <- line
	}
}

func (s *stubAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path := r.URL.Path
	none := emptyKinds[path[strings.LastIndex(path, "/")+1:]]
	switch {
	case strings.HasSuffix(path, "/status"):
		s.patchStatus(w, r)
	case strings.HasSuffix(path, "/ratelimitpolicies") && r.URL.Query().Get("sendInitialEvents") != "":
		reply(w, http.StatusUnprocessableEntity, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422})
	case strings.HasSuffix(path, "/ratelimitpolicies") && r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case strings.HasSuffix(path, "/ratelimitpolicies"):
		s.mu.Lock()
		defer s.mu.Unlock()
		items := make([]json.RawMessage, len(s.policies))
		for i, policy := range s.policies {
			items[i] = policy.encode()
		}
		reply(w, http.StatusOK, map[string]any{
			"kind": "RateLimitPolicyList", "apiVersion": "ratelimit.weir.dev/v1alpha1",
			"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": items,
		})
	case none != "":
		serveNone(w, r, none)
	case strings.Contains(path, "/leases"):
		s.serveLease(w, r)
	case path == "/api/v1/namespaces/default":
		reply(w, http.StatusOK, map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{"name": "default", "uid": "u"}})
	case strings.HasSuffix(path, "/events"):
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	default:
		discover(w, path)
	}
}

// emptyKinds are the kinds without objects, by their resources.
var emptyKinds = map[string]string{"ratelimitkeygroups": "RateLimitKeyGroup", "ratelimitexceptions": "RateLimitException"}

// serveNone lists and watches a kind without objects.
func serveNone(w http.ResponseWriter, r *http.Request, kind string) {
	switch query := r.URL.Query(); {
	case query.Get("sendInitialEvents") != "":
		reply(w, http.StatusUnprocessableEntity, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422})
	case query.Get("watch") != "":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		reply(w, http.StatusOK, map[string]any{
			"kind": kind + "List", "apiVersion": "ratelimit.weir.dev/v1alpha1",
			"metadata": map[string]any{"resourceVersion": "1"}, "items": []any{},
		})
	}
}

func discover(w http.ResponseWriter, path string) {
	group := map[string]any{
		"name":     "ratelimit.weir.dev",
		"versions": []any{map[string]any{"groupVersion": "ratelimit.weir.dev/v1alpha1", "version": "v1alpha1"}},
	}
	switch path {
	case "/api":
		reply(w, http.StatusOK, map[string]any{"kind": "APIVersions", "versions": []any{"v1"}})
	case "/apis":
		reply(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []any{group}})
	case "/apis/ratelimit.weir.dev":
		group["kind"], group["apiVersion"] = "APIGroup", "v1"
		reply(w, http.StatusOK, group)
	case "/apis/ratelimit.weir.dev/v1alpha1":
		resource := func(name, kind string) any {
			return map[string]any{"name": name, "namespaced": true, "kind": kind, "verbs": []any{"get", "list", "watch", "patch"}}
		}
		reply(w, http.StatusOK, map[string]any{
			"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "ratelimit.weir.dev/v1alpha1",
			"resources": []any{
				resource("ratelimitpolicies", "RateLimitPolicy"), resource("ratelimitpolicies/status", "RateLimitPolicy"),
				resource("ratelimitkeygroups", "RateLimitKeyGroup"), resource("ratelimitexceptions", "RateLimitException"),
			},
		})
	default:
		reply(w, http.StatusNotFound, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404})
	}
}

func (s *stubAPI) watch(w http.ResponseWriter, r *http.Request) {
	events := make(chan []byte, 100_000)
	s.mu.Lock()
	s.watches[events] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, events)
	}()
	flusher := w.(http.Flusher)
	flusher.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case line := <-events:
			_, _ = w.Write(line)
			flusher.Flush()
		}
	}
}

func (s *stubAPI) patchStatus(w http.ResponseWriter, r *http.Request) {
	var patch struct{ Status json.RawMessage }
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	<-time.After(stubPatchDelay) // the work of a real API server
	parts := strings.Split(r.URL.Path, "/")
	i, err := strconv.Atoi(strings.TrimPrefix(parts[len(parts)-2], "p"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	policy := s.policies[i]
	policy.status, policy.version = patch.Status, s.version
	s.announce(policy)
	s.patches.Add(1)
	select {
	case s.patched <- struct{}{}:
	default:
	}
	_, _ = w.Write(policy.encode())
}

func (s *stubAPI) serveLease(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method != http.MethodGet {
		s.lease, _ = io.ReadAll(r.Body)
	}
	if s.lease == nil {
		discover(w, "")
		return
	}
	w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Type", http.DetectContentType(s.lease))
	}
	_, _ = w.Write(s.lease)
}

func reply(w http.ResponseWriter, status int, body map[string]any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) //nolint:errchkjson // plain values
}
