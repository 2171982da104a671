// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

const shared = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: client, namespace: shop}
spec:
  mode: Shadow
  key: [{type: RemoteAddress, remoteAddress: {}}]
  limits: [{name: l, algorithm: FixedWindow, threshold: 5, window: 1h}]
---
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: everybody, namespace: shop}
spec:
  mode: Shadow
  limits: [{name: l, algorithm: FixedWindow, threshold: 3000, window: 1m}]
`

// With more keys than fit, each key of the sample has the tally that it has without sampling, a
// policy without key has all requests, and the share is close to the whole.
func TestSample(t *testing.T) {
	g := NewWithT(t)
	random := rand.New(rand.NewPCG(3, 4))
	var log bytes.Buffer
	for i := range 100_000 {
		client := int(20_000 * random.Float64() * random.Float64())
		fmt.Fprintf(&log, "10.0.%d.%d - - [01/Nov/2026:12:%02d:%02d +0000] \"GET / HTTP/1.1\" 200 1\n", client>>8, client&255, i/6000, i/100%60)
	}
	policies, err := testpolicy.Read(t.Context(), []byte(shared))
	g.Expect(err).NotTo(HaveOccurred())
	plans, err := Compile(policies)
	g.Expect(err).NotTo(HaveOccurred())
	replay := func(maxKeys int) (*Report, map[store.Key]*tally) {
		r := newReplay(plans)
		r.recorder.maxKeys = maxKeys
		backend := memory.NewStore(memory.Options{Keys: maxKeys + 1, Now: func() time.Time { return r.now }})
		r.recorder.Store = backend
		report, err := r.run(t.Context(), Options{Source: Source{
			Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(log.Bytes())), nil }, Format: FormatCombined,
		}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(backend.Keys()).To(BeNumerically("<=", maxKeys+1), "dropped keys have no states")
		return report, r.recorder.policies["shop/client"].keys
	}
	all, allKeys := replay(1_000_000)
	sample, keys := replay(2000)
	g.Expect(all.SampledKeys).To(Equal(int64(1)))
	g.Expect(sample.SampledKeys).To(BeNumerically(">=", 8))
	g.Expect(len(keys)).To(And(BeNumerically(">", 500), BeNumerically("<=", 2000)))
	sum := tally{}
	for key, t := range keys {
		g.Expect(t).To(Equal(allKeys[key]), string(key))
		sum.Requests += t.Requests
		sum.Denied += t.Denied
	}
	client, everybody := sample.Policies[0], sample.Policies[1]
	g.Expect(client.tally).To(Equal(sum))
	g.Expect(client.Share).To(BeNumerically("~", all.Policies[0].Share, 0.03))
	g.Expect(everybody.Row).To(Equal(all.Policies[1].Row))
	g.Expect(sample.Denied.Requests).To(Equal(sum.Requests))
	var out bytes.Buffer
	g.Expect(sample.Write(&out)).To(Succeed())
	g.Expect(out.String()).To(ContainSubstring(fmt.Sprintf("1 of %d keys, by hash", sample.SampledKeys)))
}

// A heap that is too large halves the keys, like too many keys.
func TestLargeHeapIsSampled(t *testing.T) {
	g := NewWithT(t)
	r := newRecorder(nil, nil)
	r.maxLive, r.keys = 1, 77
	g.Expect(r.tooLarge()).To(BeTrue())
	g.Expect(r.maxKeys).To(Equal(77))
	g.Expect(r.tooLarge()).To(BeFalse(), "from then on, keys count")
}

// Levels halve the keys evenly.
func TestLevels(t *testing.T) {
	g := NewWithT(t)
	var counts [levels]float64
	for i := range 200_000 {
		counts[levelOf(store.Key(fmt.Sprintf("10.0.%d.%d", i>>8, i&255)))]++
	}
	for level := range 6 {
		g.Expect(counts[level] / 200_000 * float64(int(2)<<level)).To(BeNumerically("~", 1, 0.1))
	}
}
