// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package backtest_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/backtest"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// combinedLog returns a log of n requests at the given number a second, from as many clients.
func combinedLog(n, perSecond, clients int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var log bytes.Buffer
	for i := range n {
		client, status := random.IntN(clients), 200
		if random.IntN(50) == 0 {
			status = 429
		}
		fmt.Fprintf(&log, "10.%d.%d.%d - - [%s] \"GET /v1/items/%d?page=2 HTTP/1.1\" %d 512 \"-\" \"curl/8.5.0\"\n",
			client>>16, client>>8&255, client&255, start.Add(time.Duration(i/perSecond)*time.Second).Format("02/Jan/2006:15:04:05 -0700"),
			i%1000, status)
	}
	return log.Bytes()
}

const byClient = `
apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitPolicy
metadata: {name: api, namespace: shop}
spec:
  key: [{type: RemoteAddress, remoteAddress: {}}]
  limits: [{name: minute, algorithm: FixedWindow, threshold: 10, window: 1m}]
`

// replay runs the policies over the log.
func replay(tb testing.TB, policies string, format backtest.Format, log []byte) (*backtest.Report, error) {
	tb.Helper()
	read, err := testpolicy.Read(tb.Context(), []byte(policies))
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	plans, err := backtest.Compile(read)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	return backtest.Run(tb.Context(), plans, options(format, log))
}

func options(format backtest.Format, log []byte) backtest.Options {
	return backtest.Options{Source: backtest.Source{
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(log)), nil }, Format: format,
	}}
}

func BenchmarkLines(b *testing.B) {
	const lines = 200_000
	log := combinedLog(lines, 1000, 5000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := replay(b, byClient, backtest.FormatCombined, log); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(lines*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
