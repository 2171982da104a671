// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
)

// A call needs one string for its Redis keys; its batch has the arguments of all calls. Decoding
// the reply needs nothing.
func TestCallsAllocateLittle(t *testing.T) {
	g := NewWithT(t)
	const calls = 16
	store := NewStore(Options{Prefix: testPrefix})
	policy := NewPolicy("test/p", false, false, []Limit{SlowLimit(FixedWindow, 30), SlowLimit(Suppressed, 30)})
	var batch []*pending
	for i := range calls {
		batch = append(batch, &pending{call: &Call{
			Draw: 4_000_000_000, Entries: []Entry{{Policy: policy, Key: Key(fmt.Sprintf("user-%d", i)), Cost: 1_000_000}},
		}})
	}
	g.Expect(testenv.FewestAllocations(func() { store.decideCommand(batch) })).To(BeNumerically("<=", calls+4))
	value := []any{
		int64(Admitted), int64(1), int64(1), int64(0), int64(1), int64(0), int64(1), int64(1), int64(0), int64(1), int64(0), int64(0),
	}
	g.Expect(testenv.FewestAllocations(func() {
		if _, err := decodeReply(batch[0].call, false, value); err != nil {
			t.Error(err)
		}
	})).To(BeZero())
}
