// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
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
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
)

// stubPatchDelay is the time of one status patch on the stub.
const stubPatchDelay = 10 * time.Millisecond

// BenchmarkStatusWrites compares decisions while thousands of statuses are written with
// decisions of a quiet process. The API server is a stub that takes 10 ms for a patch, so that
// only the CPU of Weir counts. The load shares the CPUs, so the figures are upper bounds.
func BenchmarkStatusWrites(b *testing.B) {
	const policies = 5000
	g := NewWithT(b)
	stub := startStubAPI(b, policies)
	c := &cluster{tb: b, redis: testenv.StartRedis(b), kubeconfig: stub.kubeconfig}
	p := c.manager("--max-namespace-policies", "0") // they share one Namespace
	g.Eventually(p.policies, "15s", "100ms").Should(Equal(policies))
	g.Eventually(stub.patches.Load, "120s", "100ms").Should(BeNumerically(">=", policies))
	for b.Loop() {
		stub.settle()
		quiet := p.latencies(b, func() bool { return true }, 3000)
		before := stub.patches.Load()
		stub.touch()
		g.Eventually(stub.patches.Load, "20s", "1ms").Should(BeNumerically(">", before+50))
		during := p.latencies(b, func() bool { return stub.patches.Load() < before+policies }, 1<<20)
		stub.settle()
		b.ReportMetric(float64(stub.patches.Load()-before)/policies, "patches/policy")
		b.ReportMetric(quiet.Seconds()*1000, "quiet-p99-ms")
		b.ReportMetric(during.Seconds()*1000, "busy-p99-ms")
		b.ReportMetric(during.Seconds()/quiet.Seconds(), "ratio")
	}
}

// latencies sends 500 checks a second, at most n and while the condition holds, and returns the
// 99th percentile of their times.
func (p *process) latencies(b *testing.B, while func() bool, n int) time.Duration {
	b.Helper()
	every := time.NewTicker(2 * time.Millisecond)
	defer every.Stop()
	var took []time.Duration
	for len(took) < n && while() {
		<-every.C
		start := time.Now()
		if _, _, err := p.check(`{"policies":["shop/p1"],"key":"k","peek":true}`); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// stubAPI is an API server with policies in memory, for one process.
type stubAPI struct {
	kubeconfig string
	patches    atomic.Int64 // of statuses

	mu       sync.Mutex
	version  int
	policies []map[string]any
	lease    []byte
	watches  map[chan []byte]bool
}

func startStubAPI(tb testing.TB, policies int) *stubAPI {
	tb.Helper()
	s := &stubAPI{watches: map[chan []byte]bool{}, version: 1}
	for i := range policies {
		s.policies = append(s.policies, map[string]any{
			"apiVersion": "ratelimit.weir.dev/v1alpha1", "kind": "RateLimitPolicy",
			"metadata": map[string]any{
				"namespace": "shop", "name": fmt.Sprintf("p%d", i), "uid": fmt.Sprintf("uid-%d", i),
				"generation": 1, "resourceVersion": "1",
			},
			"spec":   map[string]any{"limits": []any{map[string]any{"name": "l", "algorithm": "FixedWindow", "threshold": 1, "window": "1h"}}},
			"status": map[string]any{"observedGeneration": -1},
		})
	}
	server := httptest.NewServer(s)
	tb.Cleanup(server.CloseClientConnections)
	s.kubeconfig = filepath.Join(tb.TempDir(), "stub")
	config := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q}}],`+
		`"contexts":[{"name":"c","context":{"cluster":"c","user":""}}]}`, server.URL)
	if err := os.WriteFile(s.kubeconfig, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	return s
}

// touch requests a pass over every policy.
func (s *stubAPI) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, policy := range s.policies {
		s.version++
		metadata := policy["metadata"].(map[string]any)
		metadata["annotations"] = map[string]any{"ratelimit.weir.dev/reconcile-requested-at": strconv.Itoa(s.version)}
		metadata["resourceVersion"] = strconv.Itoa(s.version)
		s.announce(policy)
	}
}

// settle waits until no more statuses are written.
func (s *stubAPI) settle() {
	for before := int64(-1); before != s.patches.Load(); time.Sleep(2 * time.Second) {
		before = s.patches.Load()
	}
}

// announce sends the policy to the watches. The caller holds the lock.
func (s *stubAPI) announce(policy map[string]any) {
	line, _ := json.Marshal(map[string]any{"type": "MODIFIED", "object": policy}) //nolint:errchkjson // plain values
	for watch := range s.watches {
		watch <- line
	}
}

func (s *stubAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path := r.URL.Path
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
		reply(w, http.StatusOK, map[string]any{
			"kind": "RateLimitPolicyList", "apiVersion": "ratelimit.weir.dev/v1alpha1",
			"metadata": map[string]any{"resourceVersion": strconv.Itoa(s.version)}, "items": s.policies,
		})
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
		resource := func(name string) any {
			return map[string]any{"name": name, "namespaced": true, "kind": "RateLimitPolicy", "verbs": []any{"get", "list", "watch", "patch"}}
		}
		reply(w, http.StatusOK, map[string]any{
			"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "ratelimit.weir.dev/v1alpha1",
			"resources": []any{resource("ratelimitpolicies"), resource("ratelimitpolicies/status")},
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
			_, _ = w.Write(append(line, '\n'))
			flusher.Flush()
		}
	}
}

func (s *stubAPI) patchStatus(w http.ResponseWriter, r *http.Request) {
	var patch map[string]any
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(stubPatchDelay)
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
	policy["status"] = patch["status"]
	policy["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(s.version)
	s.announce(policy)
	s.patches.Add(1)
	reply(w, http.StatusOK, policy)
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
