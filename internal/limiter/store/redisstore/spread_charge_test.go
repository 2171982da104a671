// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/storetest"
)

// newSpreadSubject returns a subject whose store decides each key by itself, as in a Redis Cluster.
func newSpreadSubject(t *testing.T) *storetest.Subject {
	t.Helper()
	b, _ := newSubject(t, servers[0])
	b.Store.(*Store).isCluster = true //nolint:forcetypeassert // it is one
	return b
}

func usedOf(t *testing.T, b *storetest.Subject, policy *store.Policy, key store.Key) int64 {
	t.Helper()
	peek := &store.Call{Entries: []store.Entry{{Policy: policy, Key: key, Peek: true}}}
	return b.MustEvaluate(t, peek).Entries[0].Limits[0].Used
}

// unknownCharge is a charge of a key that may be unknown.
type unknownCharge struct {
	policy  int
	key     store.Key
	unknown bool
}

// A charge of an unknown key goes to the overflow key. The other entries of the call are charged once,
// whether they have the same key, another one, or an ID.
func TestSpreadChargesOfUnknownKeys(t *testing.T) {
	for name, charges := range map[string][]unknownCharge{
		"one of two keys":             {{policy: 0, key: "new", unknown: true}, {policy: 1, key: "other"}},
		"both keys":                   {{policy: 0, key: "new", unknown: true}, {policy: 1, key: "new2", unknown: true}},
		"one key":                     {{policy: 0, key: "new", unknown: true}, {policy: 1, key: "new"}},
		"two keys of one policy":      {{policy: 0, key: "new", unknown: true}, {policy: 0, key: "new2", unknown: true}},
		"a known key and the unknown": {{policy: 0, key: "known"}, {policy: 0, key: "new", unknown: true}, {policy: 1, key: "known"}},
	} {
		for _, action := range []store.Action{store.Charge, store.CommitOrCharge} {
			for _, id := range []string{"", "id"} {
				if action == store.CommitOrCharge && id == "" {
					continue
				}
				t.Run(fmt.Sprintf("%s, action %d, id %q", name, action, id), func(t *testing.T) {
					testSpreadCharges(t, charges, action, id)
				})
			}
		}
	}
}

func testSpreadCharges(t *testing.T, charges []unknownCharge, action store.Action, id string) {
	t.Helper()
	g := NewWithT(t)
	b := newSpreadSubject(t)
	var policies []*store.Policy
	for _, id := range []string{"test/a", "test/b"} {
		policies = append(policies, store.NewVariants(
			store.Settings{ID: id, MaxOpen: 10}, []store.Limit{storetest.SlowLimit(store.FixedWindow, 100)})[0])
	}
	for _, p := range policies { // a known key
		b.MustEvaluate(t, &store.Call{Entries: []store.Entry{{Policy: p, Key: "known", Cost: 1}}})
	}
	call := &store.Call{}
	for _, c := range charges {
		call.Entries = append(call.Entries, store.Entry{
			Policy: policies[c.policy], Key: c.key, Cost: 5, OnlyKnown: c.unknown || c.key == "known",
			Action: action, ID: id,
		})
	}
	reply := b.MustEvaluate(t, call)
	for i, c := range charges {
		key, want := c.key, int64(5)
		if c.unknown {
			key = call.OverflowKey(i)
			g.Expect(usedOf(t, b, policies[c.policy], c.key)).To(BeZero())
		} else if c.key == "known" {
			want = 6
		}
		g.Expect(reply.Entries[i].Overflow).To(Equal(c.unknown))
		g.Expect(reply.Entries[i].Hold).To(Equal(store.HoldNone))
		g.Expect(reply.Entries[i].Limits).To(HaveLen(1))
		g.Expect(reply.Entries[i].Limits[0].Used).To(Equal(want))
		g.Expect(usedOf(t, b, policies[c.policy], key)).To(Equal(want), string(key))
	}
}
