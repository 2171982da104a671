// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"

	"github.com/weir-dev/weir/test/testenv"
)

const (
	grpcTitle = "gRPC ShouldRateLimit"

	// plainNoop is the first row over gRPC.
	plainNoop = "no-op, default options"
	weirName  = "Weir"
)

// policiesOfBench are policies by descriptor: one that never denies, the same with slices of one second and of ten, and one
// that admits a single unit an hour.
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
metadata: {name: sliced, namespace: bench}
spec:
  matches: [{domain: bench, descriptors: [{key: sliced}]}]
  key: [{type: Descriptor, descriptor: {key: sliced}}]
  slices: {maxPercent: 10, maxAge: 1s}
  limits: [{name: all, algorithm: FixedWindow, threshold: 2000000000, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: sliced-for-long, namespace: bench}
spec:
  matches: [{domain: bench, descriptors: [{key: sliced-for-long}]}]
  key: [{type: Descriptor, descriptor: {key: sliced-for-long}}]
  slices: {maxPercent: 10, maxAge: 10s}
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
// which match other domains.
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

// Workloads over gRPC.
func manyAllowed() *workload { return keysOf("10,000 keys, allowed", "allowed", 10_000) }
func oneAllowed() *workload  { return keysOf("one key, allowed", "allowed", 1) }
func manyDenied() *workload  { return keysOf("10,000 keys, denied", "denied", 10_000) }
func oneDenied() *workload   { return keysOf("one key, denied", "denied", 1) }

func compareGRPC(b *testing.B, s *section) {
	b.Helper()
	weir, _ := weirTargets(b, policyFolder(b, 0))
	others := peers(b)
	plain := noopTarget(b, plainNoop, noopPlain, nil)
	for _, w := range []*workload{manyAllowed(), oneAllowed(), manyDenied(), oneDenied()} {
		w.exhaust(b, weir)
		same := noopTarget(b, "no-op, Weir's options and fields", noopWeir, responseOf(b, weir, w))
		targets := append([]*target{plain, same, weir}, others...)
		for _, peer := range others {
			w.exhaust(b, peer)
		}
		for _, callers := range []int{1, 16, 64, 256} {
			measured := w.pairOverGRPC(b, callers, targets, *rounds)
			if measured.isChecked() {
				s.add(measured)
			} else {
				s.print(measured)
			}
		}
	}
}

// pairOverGRPC measures the targets under the workload.
func (w *workload) pairOverGRPC(tb testing.TB, callers int, targets []*target, rounds int) *scenario {
	tb.Helper()
	s := &scenario{name: w.name, callers: callers}
	for _, t := range targets {
		s.loads = append(s.loads, load{name: t.name, target: t, calls: w.overGRPC(tb, t, callers)})
	}
	s.pair(tb, rounds, *duration)
	return s
}

// exhaust spends the unit of every key of a denied workload, and lets each be denied once: a service that remembers
// denials has met all of them.
func (w *workload) exhaust(tb testing.TB, t *target) {
	tb.Helper()
	if !w.denied() {
		return
	}
	send := t.connect(tb, t.address, w)
	for i := range 2 * len(w.grpc) {
		if _, err := send(tb.Context(), i%len(w.grpc)); err != nil {
			tb.Fatal(err)
		}
	}
}

// responseOf returns the response of Weir to the first request of the workload, encoded.
func responseOf(tb testing.TB, weir *target, w *workload) []byte {
	tb.Helper()
	response, err := newClient(tb, weir.address).ShouldRateLimit(tb.Context(), w.grpc[0])
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	want := ratelimitv3.RateLimitResponse_OK
	if w.denied() {
		want = ratelimitv3.RateLimitResponse_OVER_LIMIT
	}
	NewWithT(tb).Expect(response.GetOverallCode()).To(Equal(want))
	data, err := proto.Marshal(response)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	return data
}

func compareHTTP(b *testing.B, s *section) {
	b.Helper()
	_, weir := weirTargets(b, policyFolder(b, 0))
	w := manyAllowed()
	for _, endpoint := range []struct{ method, path string }{
		{http.MethodPost, "/v1/check"}, {http.MethodGet, "/v1/authorize?policy=bench/allowed"},
	} {
		noop := noopTarget(b, "no-op net/http", noopHTTP, bodyOf(b, weir, endpoint.method, endpoint.path, w))
		pair := &scenario{name: endpoint.method + " " + endpoint.path, callers: 64}
		for _, t := range []*target{noop, weir} {
			calls := w.overHTTP(b, t, endpoint.method, endpoint.path, pair.callers)
			pair.loads = append(pair.loads, load{name: t.name, target: t, calls: calls})
		}
		pair.pair(b, *rounds, *duration)
		if endpoint.method == http.MethodPost {
			s.add(pair)
		} else {
			s.print(pair)
		}
	}
}

// bodyOf returns the body of the response of Weir to the first request of the workload.
func bodyOf(tb testing.TB, weir *target, method, path string, w *workload) []byte {
	tb.Helper()
	g := NewWithT(tb)
	r, err := http.NewRequestWithContext(tb.Context(), method, "http://"+weir.address+path, bytes.NewReader(w.bodies[0]))
	g.Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(r)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	body, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return body
}

func comparePolicies(b *testing.B, s *section) {
	b.Helper()
	var targets []*target
	for _, others := range []int{8, 998, 9_998} {
		weir, _ := weirTargets(b, policyFolder(b, others))
		weir.name = fmt.Sprintf("Weir with %d policies", others+2)
		targets = append(targets, weir)
	}
	s.add(manyAllowed().pairOverGRPC(b, 64, targets, *rounds))
}

// compareObserve compares Weir that collects who is denied with Weir that does not.
func compareObserve(b *testing.B, s *section) {
	b.Helper()
	policies := policyFolder(b, 0)
	var targets []*target
	for _, flag := range []string{"--observe=false", "--observe=true"} {
		redis := testenv.StartRedis(b)
		weir, _ := startWeir(b, policies, redis.URL, []int{redis.Pid()}, flag)
		weir.name = "Weir with " + flag
		targets = append(targets, weir)
	}
	for _, w := range []*workload{manyAllowed(), manyDenied(), oneDenied()} {
		for _, t := range targets {
			w.exhaust(b, t)
		}
		s.add(w.pairOverGRPC(b, 64, targets, *rounds))
	}
}
