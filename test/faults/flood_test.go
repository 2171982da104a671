// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var floodLength = flag.Duration("flood", 8*time.Second, "length of the flood of new keys")

const (
	floodRate    = 5000 // calls a second
	floodClients = 10
	// maxMemory is the memory of Redis, in bytes.
	maxMemory = 256 << 20
)

// flood sends calls of other clients at floodRate for a time. name returns the key of the n-th call
// of a client.
func (l *load) flood(ctx context.Context, length time.Duration, name func(client, n int) string) (answers *history) {
	answers = &history{}
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var wait sync.WaitGroup
	for client := range floodClients {
		wait.Go(func() {
			const burst = 10 // of each tick
			ticker := time.NewTicker(burst * time.Second * floodClients / floodRate)
			defer ticker.Stop()
			for n := 0; ; {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
				}
				for range burst {
					answers.add(l.ask("open", name(client, n)))
					n++
				}
			}
		})
	}
	wait.Wait()
	return answers
}

// Clients that send a new key with each call neither fill a Redis of 256 MB nor slow the known
// clients down, who get their quotas exactly. Their latency is compared with that beside as many
// calls for known keys.
func TestAFloodOfNewKeys(t *testing.T) {
	g := NewWithT(t)
	s := startSingle(t, "--maxmemory", "256mb", "--maxmemory-policy", "noeviction")
	if *floodLength < time.Minute {
		g.Expect(s.admin.SetRange(t.Context(), "ballast", 180<<20, "x").Err()).To(Succeed())
	}
	w := startProcess(t, append(standalone(t, s.redis.URL), "--store-timeout", patientTimeout.String())...)
	l := startLoad(t, w)
	await(t, "the first calls", func() bool { return len(l.all()) > 800 })

	start := time.Now()
	beforeFlood := func(client, n int) string { return fmt.Sprintf("known-%d-%d", client, n%20) }
	l.flood(t.Context(), min(*floodLength, 20*time.Second), beforeFlood)
	if *floodLength < time.Minute { // Redis is soon nearly full
		s.must(t, "CONFIG", "SET", "maxmemory", fmt.Sprintf("%.0f", s.memoryUse(t)*maxMemory/0.799))
	}
	began := time.Now()
	flood := l.flood(t.Context(), *floodLength, func(client, n int) string { return fmt.Sprintf("invented-client-%d-%d", client, n) })
	ended := time.Now()
	await(t, "the end of all quotas", func() bool { return l.exhausted(ended) })
	l.stop()

	records := l.all()
	beside := percentile(filter(records, func(r *record) bool { return r.start.After(start) && r.end.Before(began) }), 0.99)
	during := percentile(filter(records, func(r *record) bool { return r.start.After(began) && r.end.Before(ended) }), 0.99)
	overflow := len(filter(flood.all(), func(r *record) bool { return r.key == overflowKey }))
	t.Logf("%d new keys, %d of them shared a budget; p99 of known clients %v, beside as many calls for known keys %v; memory of Redis %.0f MB",
		len(flood.all()), overflow, during, beside, s.memoryUse(t)*maxMemory/(1<<20))
	r := account(records)
	g.Expect([]int64{r.over, r.under}).To(Equal([]int64{0, 0}), "units beyond and short of the quotas of known clients")
	for _, c := range append(records, flood.all()...) {
		g.Expect(c.failed || c.degraded != "").To(BeFalse(), "an answer without Redis")
	}
	g.Expect(overflow).To(BeNumerically(">", 0))
	most := 3*beside + 5*time.Millisecond // of a few seconds, on a busy machine
	if *floodLength >= time.Minute {
		most = 3 * beside / 2
	}
	g.Expect(during).To(BeNumerically("<", most))
}

// memoryUse returns the share of maxMemory that the Redis uses.
func (s *single) memoryUse(t *testing.T) float64 {
	t.Helper()
	info := s.admin.InfoMap(t.Context(), "memory").Item("Memory", "used_memory")
	var used float64
	_, err := fmt.Sscan(info, &used)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return used / maxMemory
}
