// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"
)

var (
	rounds   = flag.Int("rounds", 6, "paired rounds per scenario")
	duration = flag.Duration("duration", 2*time.Second, "length of one measurement")
	report   = flag.String("report", "", "folder of performance.md and performance.svg to update (default: print only)")
)

// policiesOfBench are two policies by descriptor: one that never denies, and one that
// admits a single unit an hour.
const policiesOfBench = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: allowed, namespace: bench}
spec:
  matches: [{domain: bench, descriptors: [{key: allowed}]}, {hosts: [bench.example]}]
  key: [{type: Descriptor, descriptor: {key: allowed}}, {type: Header, header: {name: x-user}}]
  limits: [{name: all, algorithm: FixedWindow, threshold: 2000000000, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: denied, namespace: bench}
spec:
  matches: [{domain: bench, descriptors: [{key: denied}]}]
  key: [{type: Descriptor, descriptor: {key: denied}}]
  limits: [{name: all, algorithm: FixedWindow, threshold: 1, window: 1h}]
`

// policyFolder returns a folder with the policies of the benchmark and a number of others,
// which match other hosts.
func policyFolder(tb testing.TB, others int) string {
	tb.Helper()
	var text strings.Builder
	text.WriteString(policiesOfBench)
	for i := range others {
		fmt.Fprintf(&text, `---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: other-%d, namespace: bench}
spec:
  matches: [{domain: other-%d}]
  limits: [{name: all, algorithm: FixedWindow, threshold: 5, window: 1m}]
`, i, i)
	}
	dir := tb.TempDir()
	NewWithT(tb).Expect(os.WriteFile(filepath.Join(dir, "policies.yaml"), []byte(text.String()), 0o600)).To(Succeed())
	return dir
}

// scenario is one table row per target: the targets under the same load.
type scenario struct {
	name    string
	callers int
	targets []target
	calls   [][]call // of each target
	samples [][]*sample
}

// pair measures all targets in turn, round by round, in alternating order, so that noise of
// the machine meets all of them.
func (s *scenario) pair(tb testing.TB) {
	tb.Helper()
	s.samples = make([][]*sample, len(s.targets))
	for round := range *rounds {
		for i := range s.targets {
			at := i
			if round%2 == 1 {
				at = len(s.targets) - 1 - i
			}
			s.samples[at] = append(s.samples[at], measure(tb, &s.targets[at], s.calls[at], *duration))
		}
	}
}

// BenchmarkCompare compares Weir with no-op services, round by round.
func BenchmarkCompare(b *testing.B) {
	for b.Loop() {
		r := &results{}
		compareGRPC(b, r, 1, 16, 64, 256)
		compareHTTP(b, r)
		comparePolicies(b, r)
		r.publish(b, *report)
	}
}

// BenchmarkCompareBriefly compares gRPC at 64 callers only.
func BenchmarkCompareBriefly(b *testing.B) {
	for b.Loop() {
		compareGRPC(b, &results{}, 64)
	}
}

// responseOf returns the response of Weir to the first request of the workload, encoded.
func responseOf(tb testing.TB, weir *target, w *workload) []byte {
	tb.Helper()
	var response *ratelimitv3.RateLimitResponse
	client := newClient(tb, weir.address)
	for range 2 { // the second response of an exhausted key is the denial
		var err error
		response, err = client.ShouldRateLimit(tb.Context(), w.grpc[0])
		NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	}
	data, err := proto.Marshal(response)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	return data
}

func compareGRPC(b *testing.B, r *results, callers ...int) {
	b.Helper()
	weir, _ := weirTargets(b, policyFolder(b, 0))
	workloads := []*workload{
		keysOf("10,000 keys, allowed", "allowed", 10_000, false),
		keysOf("one key, allowed", "allowed", 1, false),
		keysOf("10,000 keys, denied", "denied", 10_000, true),
		keysOf("one key, denied", "denied", 1, true),
	}
	plain := noopTarget(b, "no-op, default options", noopPlain, nil)
	plain.allowsAll = true
	for _, w := range workloads {
		exhaust(b, &weir, w)
		same := noopTarget(b, "no-op, Weir's options and fields", noopWeir, responseOf(b, &weir, w))
		for _, n := range callers {
			s := &scenario{name: w.name, callers: n, targets: []target{plain, same, weir}}
			for i := range s.targets {
				s.calls = append(s.calls, w.overGRPC(b, &s.targets[i], n))
			}
			s.pair(b)
			r.add("gRPC ShouldRateLimit", s)
		}
	}
}

// exhaust spends the unit of every key of a denied workload.
func exhaust(tb testing.TB, weir *target, w *workload) {
	tb.Helper()
	if !w.denied {
		return
	}
	client := newClient(tb, weir.address)
	for _, request := range w.grpc {
		if _, err := client.ShouldRateLimit(tb.Context(), request); err != nil {
			tb.Fatal(err)
		}
	}
}

func compareHTTP(b *testing.B, r *results) {
	b.Helper()
	_, weir := weirTargets(b, policyFolder(b, 0))
	w := keysOf("10,000 keys, allowed", "allowed", 10_000, false)
	for _, endpoint := range []struct{ method, path string }{
		{http.MethodPost, "/v1/check"}, {http.MethodGet, "/v1/authorize?policy=bench/allowed"},
	} {
		noop := noopTarget(b, "no-op net/http", noopHTTP, bodyOf(b, &weir, endpoint.method, endpoint.path, w))
		s := &scenario{name: endpoint.method + " " + endpoint.path, callers: 64, targets: []target{noop, weir}}
		for i := range s.targets {
			s.calls = append(s.calls, w.overHTTP(b, &s.targets[i], endpoint.method, endpoint.path, s.callers))
		}
		s.pair(b)
		r.add("HTTP", s)
	}
}

// bodyOf returns the body of the response of Weir to the first request of the workload.
func bodyOf(tb testing.TB, weir *target, method, path string, w *workload) []byte {
	tb.Helper()
	g := NewWithT(tb)
	r, err := http.NewRequestWithContext(tb.Context(), method, "http://"+weir.address+path, strings.NewReader(string(w.bodies[0])))
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return body
}

func comparePolicies(b *testing.B, r *results) {
	b.Helper()
	w := keysOf("10,000 keys, allowed", "allowed", 10_000, false)
	s := &scenario{name: w.name, callers: 64}
	for _, others := range []int{8, 998, 9_998} {
		weir, _ := weirTargets(b, policyFolder(b, others))
		weir.name = fmt.Sprintf("Weir with %d policies", others+2)
		s.targets = append(s.targets, weir)
		s.calls = append(s.calls, w.overGRPC(b, &weir, s.callers))
	}
	s.pair(b)
	r.add("Number of policies", s)
}
