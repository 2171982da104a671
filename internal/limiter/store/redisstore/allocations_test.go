// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
	"github.com/weir-dev/weir/test/testenv"
)

// A call needs one string for its Redis keys; its batch has the arguments of all calls. Decoding
// the reply needs nothing.
func TestCallsAllocateLittle(t *testing.T) {
	g := NewWithT(t)
	const calls = 16
	backend := NewStore(Options{Prefix: testPrefix})
	policy := store.NewPolicy("test/p", false, false, []store.Limit{storetest.SlowLimit(store.FixedWindow, 30), storetest.SlowLimit(store.Suppressed, 30)})
	var batch []*pending
	for i := range calls {
		batch = append(batch, pendingOf(t, &store.Call{
			Draw: 4_000_000_000, Entries: []store.Entry{{Policy: policy, Key: store.Key(fmt.Sprintf("user-%d", i)), Cost: 1_000_000}},
		}))
	}
	g.Expect(testenv.FewestAllocations(func() { backend.decideCommand(batch) })).To(BeNumerically("<=", calls+4))
	value := []any{
		int64(store.Admitted), int64(1), int64(1), int64(0), int64(1), int64(0), int64(1), int64(1), int64(0), int64(1), int64(0), int64(0),
	}
	g.Expect(testenv.FewestAllocations(func() {
		if _, err := decodeReply(batch[0].call, false, value); err != nil {
			t.Error(err)
		}
	})).To(BeZero())
}
