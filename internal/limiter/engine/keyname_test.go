// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/store"
)

var network = plan.KeyPart{Type: plan.KeyRemoteAddress, IPv4PrefixLength: 24, IPv6PrefixLength: 64}

func (r *onRedis) fit(t *testing.T, id string, parts ...string) []string {
	t.Helper()
	fitted, err := r.FitKey(t.Context(), id, parts)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return fitted
}

func (r *onRedis) spend(t *testing.T, id string, parts ...string) {
	t.Helper()
	r.decide(t, &limiter.Check{Policies: []string{id}, Key: parts, Cost: 1})
}

func TestFitKeyWritesNothing(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/net", keyed(network)), makePlan("a/shared"))
	g.Expect(r.fit(t, "a/net", "192.0.2.7")).To(Equal([]string{"192.0.2.0/24"}))
	g.Expect(r.fit(t, "a/net", "192.0.2.0/24")).To(Equal([]string{"192.0.2.0/24"}))
	g.Expect(r.fit(t, "a/shared")).To(BeEmpty())
	g.Expect(r.client.DBSize(t.Context()).Val()).To(BeZero())
}

// Callers may give checks keys of another form. Such a key is accepted while it has units, a block or an
// open reservation.
func TestFitKeyAcceptsAKeyWithLiveState(t *testing.T) {
	for name, live := range map[string]func(t *testing.T, r *onRedis){
		"units": func(t *testing.T, r *onRedis) { t.Helper(); r.spend(t, "a/net", "alice", "bob") },
		"a block": func(t *testing.T, r *onRedis) {
			t.Helper()
			NewWithT(t).Expect(r.Block(t.Context(), "a/net", limiter.KeyName{Parts: []string{"alice", "bob"}}, time.Hour)).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := newOnRedis(t, makePlan("a/net", keyed(network)))
			_, err := r.FitKey(t.Context(), "a/net", []string{"alice", "bob"})
			g.Expect(err).To(MatchError("key: a/net has the key [client address]: give one part" +
				"; asGiven accepts a key of another form, which callers gave with their checks"))
			live(t, r)
			g.Expect(r.fit(t, "a/net", "alice", "bob")).To(Equal([]string{"alice", "bob"}))
		})
	}
}

// An address stands for its network, unless only the address has state.
func TestFitKeyPrefersTheNetwork(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/net", keyed(network)))
	r.spend(t, "a/net", "192.0.2.7")
	g.Expect(r.fit(t, "a/net", "192.0.2.7")).To(Equal([]string{"192.0.2.7"}), "a caller gives addresses")
	r.spend(t, "a/net", "192.0.2.0/24")
	g.Expect(r.fit(t, "a/net", "192.0.2.7")).To(Equal([]string{"192.0.2.0/24"}))
}

func TestFitKeyRejectsInvalidTargets(t *testing.T) {
	g := NewWithT(t)
	r := newOnRedis(t, makePlan("a/net", keyed(apiKey, network)))
	for field, key := range map[string][]string{
		"key": nil, "key[0]": {"", "192.0.2.7"}, "key[1]": {"alice", "not-an-address"},
	} {
		_, err := r.FitKey(t.Context(), "a/net", key)
		invalid, ok := errors.AsType[*limiter.FieldError](err)
		g.Expect(ok).To(BeTrue(), field)
		g.Expect(invalid.Field).To(Equal(field))
	}
	_, err := r.FitKey(t.Context(), "a/none", nil)
	g.Expect(err).To(MatchError(&limiter.UnknownPolicyError{Policy: "a/none"}))
	_, err = newFixture().FitKey(t.Context(), "a/net", nil)
	g.Expect(err).To(MatchError(limiter.ErrNotReady))
	r.server.Stop()
	_, err = r.FitKey(t.Context(), "a/net", []string{"alice"})
	_, ok := errors.AsType[*store.Error](err)
	g.Expect(ok).To(BeTrue(), "whether the key is live is not known")
	g.Expect(r.FitKey(t.Context(), "a/net", []string{"alice", "192.0.2.0/24"})).To(HaveLen(2))
}
