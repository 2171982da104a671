// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
)

// This file replays the calls that Envoy makes for budgets of tokens: one when the request arrives, and
// one when the stream is done. The second is made once, after a 429 too, and its answer is ignored.

// gateway is the configuration of a rate limit filter.
type gateway struct {
	domain string
	// entries describe the descriptor of both calls, as "key=value". "{user}" is the user,
	// "{id}" the ID of the stream.
	entries []string
	// onRequest and onDone are the entries that only one call has.
	onRequest, onDone []string
	// check is hits_addend of the first call; nil sends none, and -1 the estimate.
	check *int64
}

// gateways are the published configurations: Envoy Gateway translates a rule of a BackendTrafficPolicy
// with a cost for the request and one for the response; Envoy AI Gateway translates a QuotaPolicy. The
// third is the policy of docs/integrations/envoy-ai-gateway.md with IDs.
var gateways = map[string]gateway{
	"Envoy Gateway": {
		domain:  "ai/gateway/http",
		entries: []string{"httproute/ai/chat/rule/0/match/0/*=httproute/ai/chat/rule/0/match/0/*", "rule-0-match-0={user}"},
		check:   new(int64(0)),
	},
	"Envoy AI Gateway": {
		domain:  "ai-gateway-quota",
		entries: []string{"backend_name=ai/{user}", "model_name_override=gpt-4o"},
	},
	"Envoy with IDs": {
		domain:    "tokens",
		entries:   []string{"user={user}"},
		onRequest: []string{"weir_reservation={id}"},
		onDone:    []string{"weir_commit={id}"},
		check:     new(int64(-1)),
	},
}

// tokens returns a policy for the gateway: a budget for each user.
func (gw *gateway) tokens(budget int64, edits ...func(*plan.Plan)) *plan.Plan {
	last := gw.entries[len(gw.entries)-1]
	if !strings.Contains(last, "{user}") {
		last = gw.entries[0]
	}
	key, _, _ := strings.Cut(last, "=")
	return loginPlan(append([]func(*plan.Plan){func(p *plan.Plan) {
		p.Name = "tokens"
		p.Matches = []plan.Match{{Domain: gw.domain, Descriptors: []plan.EntryMatch{{Key: key}}}}
		p.Key = []plan.KeyPart{{Type: plan.KeyDescriptor, Descriptor: key}}
		p.Limits = []plan.Limit{{Name: "hourly", Algorithm: plan.FixedWindow, Threshold: budget, WindowMillis: 3_600_000}}
	}}, edits...)...)
}

func charging(p *plan.Plan) { p.LateCharges.From = 2 }

func reserving(p *plan.Plan) {
	p.Reservations = plan.Reservations{MaxTTLMillis: 600_000, MaxOpen: 1000}
}

// stream is one request of a user.
type stream struct {
	f        *fixture
	gateway  gateway
	user, id string
}

func (f *fixture) stream(name, user, id string) *stream {
	return &stream{f: f, gateway: gateways[name], user: user, id: id}
}

// call makes one call and reports whether it is allowed.
func (s *stream) call(ctx context.Context, more []string, hits *int64) (*ratelimitv3.RateLimitResponse, error) {
	d := &commonv3.RateLimitDescriptor{}
	replace := strings.NewReplacer("{user}", s.user, "{id}", s.id)
	for _, entry := range append(append([]string{}, s.gateway.entries...), more...) {
		key, value, _ := strings.Cut(entry, "=")
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: replace.Replace(value)})
	}
	if hits != nil {
		d.HitsAddend = wrapperspb.UInt64(uint64(*hits))
	}
	return ratelimitv3.NewRateLimitServiceClient(s.f.conn).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{
		Domain: s.gateway.domain, Descriptors: []*commonv3.RateLimitDescriptor{d},
	})
}

// request makes the call of the request and reports whether it is allowed.
func (s *stream) request(g *WithT, estimate int64) bool {
	hits := s.gateway.check
	if hits != nil && *hits < 0 {
		hits = &estimate
	}
	response, err := s.call(s.f.t.Context(), s.gateway.onRequest, hits)
	g.Expect(err).NotTo(HaveOccurred())
	return response.GetOverallCode() == ratelimitv3.RateLimitResponse_OK
}

// done makes the call at the end of the stream. It is answered with OK, unless it is a check of less than 2
// tokens. Envoy ignores the answer.
func (s *stream) done(g *WithT, tokens int64) {
	response, err := s.call(s.f.t.Context(), s.gateway.onDone, &tokens)
	g.Expect(err).NotTo(HaveOccurred())
	if tokens >= 2 || s.gateway.onDone != nil {
		g.Expect(response.GetOverallCode()).To(Equal(ratelimitv3.RateLimitResponse_OK))
		g.Expect(response.GetStatuses()[0].GetCode()).To(Equal(ratelimitv3.RateLimitResponse_OK))
	}
}

// used returns the units that are spent of the key, and those that are held; -1 if Redis does not answer.
func (f *fixture) used(g *WithT, key string) (used, held int64) {
	body := fmt.Sprintf(`{"policies":["shop/tokens"],"key":%q,"peek":true}`, key)
	response, err := http.Post("http://"+f.HTTP.Addr()+"/v1/check", "application/json", strings.NewReader(body))
	g.Expect(err).NotTo(HaveOccurred())
	var d struct{ Limits []struct{ Used, Held int64 } }
	g.Expect(json.NewDecoder(response.Body).Decode(&d)).To(Succeed())
	g.Expect(response.Body.Close()).To(Succeed())
	if len(d.Limits) == 0 {
		return -1, 0
	}
	return d.Limits[0].Used - d.Limits[0].Held, d.Limits[0].Held
}

// Every stream counts, also what a response costs above the budget and after a 429.
func TestTokenBudgetsOfPublishedConfigurations(t *testing.T) {
	for _, tc := range []struct {
		name, key string
		edit      func(*plan.Plan)
		used      []int64 // after each stream
	}{
		{"Envoy Gateway", "alice", charging, []int64{700, 1400, 1402}},
		{"Envoy AI Gateway", "ai/alice", charging, []int64{701, 1402, 1404}},
		{"Envoy with IDs", "alice", reserving, []int64{700, 700, 702}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			gw := gateways[tc.name]
			f := newFixture(t, nil, gw.tokens(1000, tc.edit))
			f.clock.Set(time.Unix(1_900_000_000, 0))
			var allowed []bool
			for i, tokens := range []int64{700, 700, 2} {
				s := f.stream(tc.name, "alice", fmt.Sprint("stream-", i))
				admitted := s.request(g, 800)
				if allowed = append(allowed, admitted); !admitted && tc.name == "Envoy with IDs" && tokens == 700 {
					tokens = 0 // a request that was denied costs nothing
				}
				s.done(g, tokens)
				used, held := f.used(g, tc.key)
				g.Expect([]int64{used, held}).To(Equal([]int64{tc.used[i], 0}))
			}
			g.Expect(allowed[0]).To(BeTrue())
			g.Expect(allowed[2]).To(BeFalse())
			// Other users have budgets of their own.
			g.Expect(f.stream(tc.name, "bob", "stream-9").request(g, 800)).To(BeTrue())
		})
	}
}

// A stream with the ID of an open one is denied. Its end must not be counted twice either.
func TestCopiedStreamIDs(t *testing.T) {
	g := NewWithT(t)
	gw := gateways["Envoy with IDs"]
	f := newFixture(t, nil, gw.tokens(1000, reserving))
	first := f.stream("Envoy with IDs", "alice", "stream-1")
	g.Expect(first.request(g, 300)).To(BeTrue())
	response, err := first.call(t.Context(), gw.onRequest, new(int64(300)))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.GetOverallCode()).To(Equal(ratelimitv3.RateLimitResponse_OVER_LIMIT))
	g.Expect(string(response.GetRawBody())).To(ContainSubstring(`"reason":"ReservationOpen"`))
	first.done(g, 200)
	first.done(g, 200)
	used, held := f.used(g, "alice")
	g.Expect([]int64{used, held}).To(Equal([]int64{200, 0}))
}

// Streams run at once, of one user. Their estimates are upper bounds. With IDs the budget is not exceeded; a
// check before and a charge afterwards exceed it by the requests in flight.
func TestConcurrentStreams(t *testing.T) {
	const budget, streams, requests, estimate = 20_000, 64, 40, 1000
	overrun := func(name string, edit func(*plan.Plan)) (above, cost int64) {
		g := NewWithT(t)
		gw := gateways[name]
		f := newFixture(t, nil, gw.tokens(budget, edit))
		f.clock.Set(time.Unix(1_900_000_000, 0))
		var sum atomic.Int64
		var wait sync.WaitGroup
		for worker := range streams {
			wait.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(worker)))
				for i := range requests {
					s := f.stream(name, "alice", fmt.Sprintf("%d-%d", worker, i))
					tokens := int64(0) // of a request that was denied
					if s.request(g, estimate) {
						tokens = 2 + random.Int64N(estimate-1)
						time.Sleep(time.Millisecond) // the response
					}
					sum.Add(tokens)
					s.done(g, tokens)
				}
			})
		}
		wait.Wait()
		used, held := f.used(g, "alice")
		g.Expect([]int64{used, held}).To(Equal([]int64{sum.Load(), 0}), "every token counts once")
		return max(0, used-budget), used
	}
	g := NewWithT(t)
	above, used := overrun("Envoy with IDs", reserving)
	t.Logf("with reservation IDs: %d of %d tokens, %d above the budget", used, budget, above)
	g.Expect(above).To(BeZero())
	g.Expect(used).To(BeNumerically(">", budget-2*estimate))
	above, used = overrun("Envoy Gateway", charging)
	t.Logf("with check and charge: %d of %d tokens, %d above the budget", used, budget, above)
	g.Expect(above).To(BeNumerically(">", 0), "the streams in flight")
}

// Charges that Redis did not answer are sent when it does, each once.
func TestTokensWithoutRedis(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*plan.Plan)
	}{{"Envoy Gateway", charging}, {"Envoy with IDs", reserving}} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			gw := gateways[tc.name]
			f := newFixture(t, func(o *endpoint.Options) { o.StoreTimeout = time.Second }, gw.tokens(1_000_000, tc.edit))
			s := f.stream(tc.name, "alice", "stream-1")
			g.Expect(s.request(g, 800)).To(BeTrue())
			f.redis.Pause() // calls are in its socket, and made later although they had no reply
			for i := range 5 {
				f.stream(tc.name, "alice", fmt.Sprint("paused-", i)).done(g, 100)
			}
			s.done(g, 700)
			f.redis.Resume()
			used := func() int64 {
				used, _ := f.used(g, "alice")
				return used
			}
			g.Eventually(used, "30s", "100ms").Should(BeEquivalentTo(1200))
			g.Consistently(used, "1s", "100ms").Should(BeEquivalentTo(1200))
		})
	}
}
