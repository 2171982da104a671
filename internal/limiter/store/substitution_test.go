// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
)

// A key stays protected until its own key is replaced or is known.
func TestReplaceKeepsOnlyKnown(t *testing.T) {
	g := NewWithT(t)
	l := store.Limit{Name: "l", Algorithm: store.TokenBucket, Quota: 3, Threshold: 1, Window: time.Hour}
	policy := store.NewVariants(store.Settings{ID: "test/requested", Requestable: true}, []store.Limit{l})[0]
	l.Quota, l.StateSuffix = 1000, "1000"
	requested := policy.NewRequested([]store.Limit{l}, 0)
	call := &store.Call{Entries: []store.Entry{
		{Policy: requested, Key: "a", Cost: 1, OnlyKnown: true}, {Policy: requested, Key: "b", Cost: 1, OnlyKnown: true},
	}}
	other := store.NewSubstitution(call)
	other.Replace([]int{0})
	g.Expect(other.Call().Entries[0].Policy).To(BeIdenticalTo(policy))
	g.Expect([]bool{other.Call().Entries[0].OnlyKnown, other.Call().Entries[1].OnlyKnown}).To(Equal([]bool{true, false}))
	other.Replace([]int{0})
	g.Expect(other.Call().Entries[0].OnlyKnown).To(BeFalse())
	g.Expect(other.Call().Entries[0].Key).To(Equal(call.OverflowKey(0)))
	g.Expect(other.Call().Entries[1].Key).To(Equal(store.Key("b")))
}
