// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
)

// Whatever is in the arguments, a call ends with a reply or an error, and the
// model agrees with it.
func FuzzCall(f *testing.F) {
	server, clock := testenv.StartRedisWithClock(f)
	client := newClient(f, server.Addr)
	store := NewStore(client, testPrefix)
	f.Add(uint8(0), int64(1), int64(1), int64(1), uint32(0), "alice", false)
	f.Add(uint8(1), int64(1<<31-1), int64(1<<31-1), int64(720*3600*1000), uint32(1000), "}{", true)
	f.Add(uint8(1), int64(100_000), int64(3), int64(2), uint32(1), strings.Repeat("\xff", 300), true)
	f.Fuzz(func(t *testing.T, kind uint8, quota, cost, window int64, step uint32, key string, attempts bool) {
		l := Limit{
			Name: "l", Algorithm: algorithms[int(kind)%len(algorithms)],
			Quota: clamp(quota, 1<<31-1), Window: time.Duration(clamp(window, 720*3600*1000)) * time.Millisecond,
		}
		l.Threshold, l.Block = l.Quota, l.Window
		entry := Entry{
			Policy: NewPolicy("test/fuzz", attempts, false, []Limit{l}), Key: EncodeKey(key), Cost: clamp(cost, 1<<31-1),
		}
		entry.Peek = entry.Cost > l.Quota
		model := &Model{}
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			now := clock.Advance(time.Duration(step) * time.Microsecond)
			call := &Call{Entries: []Entry{entry}}
			got, err := store.Evaluate(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			gomega.NewWithT(t).Expect(got).To(gomega.Equal(model.Evaluate(call, now)))
		}
	})
}

func clamp(n, most int64) int64 {
	n %= most
	if n < 0 {
		n = -n
	}
	return n + 1
}
