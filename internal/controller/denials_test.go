// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/traffic"
	"github.com/weir-dev/weir/test/testenv"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// countedDenials counts the rounds of the leader.
type countedDenials struct {
	*traffic.Reader

	rounds atomic.Int64
}

func (c *countedDenials) Denials(ctx context.Context) ([]plan.DenialReport, error) {
	c.rounds.Add(1)
	return c.Reader.Denials(ctx)
}

// awaitRounds waits for two more rounds, the second of which began after the call.
func (c *countedDenials) awaitRounds(ctx SpecContext) {
	GinkgoHelper()
	Eventually(c.rounds.Load).WithContext(ctx).Should(BeNumerically(">=", c.rounds.Load()+2))
}

var _ = Describe("Events of denials", func() {
	var reader *countedDenials
	var report func(ctx context.Context, policies ...*v1alpha1.RateLimitPolicy)
	var terms *controller.TermTracker
	var namespace string
	var plans *registry
	var cached client.Reader

	BeforeEach(func(ctx SpecContext) {
		redis, err := redisclient.New(testenv.StartRedis(GinkgoTB()).URL, time.Minute)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(redis.Close)
		reader = &countedDenials{Reader: traffic.NewReader(redis, "weir:")}
		report = func(ctx context.Context, policies ...*v1alpha1.RateLimitPolicy) {
			GinkgoHelper()
			marked := make([]traffic.Sightings, len(policies))
			for i, p := range policies {
				marked[i] = traffic.NewSightings(&plan.Plan{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)})
				marked[i].MarkDenial()
			}
			replica := traffic.NewReporter(traffic.Options{
				Redis: redis, Prefix: "weir:", Logger: slog.New(slog.DiscardHandler),
				Each: func(visit func(*traffic.Sightings)) {
					for i := range marked {
						visit(&marked[i])
					}
				},
			})
			ended, cancel := context.WithCancel(ctx)
			cancel()
			Expect(replica.Start(ended)).To(Succeed()) // it reports once
		}
		namespace, terms, plans = makeNamespace(ctx), controller.NewTermTracker(), newRegistry()
		_, cached = startController(options{
			namespace: namespace, publisher: plans, terms: terms, denials: reader, outageDelay: outageDelay,
		})
	})
	// create returns once the controller sees the policy, since a policy that is gone gets no event.
	create := func(ctx SpecContext, name string) *v1alpha1.RateLimitPolicy {
		GinkgoHelper()
		policy := testpolicy.Make(namespace+"/"+name).Limit("l", v1alpha1.AlgorithmFixedWindow, 1, "1m").Obj()
		Expect(api.Create(ctx, policy)).To(Succeed())
		Eventually(func(g Gomega) {
			seen := &v1alpha1.RateLimitPolicy{}
			g.Expect(cached.Get(ctx, client.ObjectKeyFromObject(policy), seen)).To(Succeed())
			g.Expect(seen.UID).To(Equal(policy.UID))
		}).WithContext(ctx).Should(Succeed())
		return policy
	}
	denialEventsOn := func(policy *v1alpha1.RateLimitPolicy) func(Gomega, SpecContext) []string {
		all := eventsOn(policy)
		return func(g Gomega, ctx SpecContext) (reasons []string) {
			for _, reason := range all(g, ctx) {
				if reason != "Ready" {
					reasons = append(reasons, reason)
				}
			}
			return reasons
		}
	}
	identityOf := func(p *v1alpha1.RateLimitPolicy) plan.Identity {
		return plan.Identity{ID: p.Namespace + "/" + p.Name, UID: string(p.UID)}
	}

	It("report the beginning once, also to the next leader", func(ctx SpecContext) {
		resign := leadEmpty(ctx, terms, plans)
		reader.awaitRounds(ctx) // the first round of a term takes reports for old
		login, search := create(ctx, "login"), create(ctx, "search")
		report(ctx, login)
		Eventually(denialEventsOn(login)).WithContext(ctx).Should(ConsistOf("DenialsBegan"))
		Expect(reader.Announced(ctx)).To(ConsistOf(identityOf(login)))
		resign()
		lead(terms)
		reader.awaitRounds(ctx)
		report(ctx, login, search)
		reader.awaitRounds(ctx)
		Expect(reader.Announced(ctx)).To(ContainElements(identityOf(login), identityOf(search)))
		Eventually(denialEventsOn(search)).WithContext(ctx).Should(ConsistOf("DenialsBegan"))
		Expect(denialEventsOn(login)(Default, ctx)).To(ConsistOf("DenialsBegan"))

		list := &eventsv1.EventList{}
		Expect(api.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		for _, e := range list.Items {
			if e.Reason == "DenialsBegan" {
				Expect(e.Type).To(Equal("Normal"))
				Expect(e.Action).To(Equal("Decide"))
				Expect(e.Note).To(Equal("The policy denies requests. List their keys with: kubectl weir top"))
			}
		}
	})

	It("come from the leader only", func(ctx SpecContext) {
		login := create(ctx, "login")
		report(ctx, login)
		Consistently(reader.rounds.Load).WithContext(ctx).Should(BeZero())
		Expect(reader.Announced(ctx)).To(BeEmpty())
	})

	It("go to the policy that denies, not to its successor", func(ctx SpecContext) {
		leadEmpty(ctx, terms, plans)
		reader.awaitRounds(ctx)
		old := create(ctx, "login")
		report(ctx, old)
		Eventually(reader.Announced).WithContext(ctx).Should(ConsistOf(identityOf(old)))
		Expect(api.Delete(ctx, old)).To(Succeed())
		next := create(ctx, "login")
		report(ctx, old)
		reader.awaitRounds(ctx)
		Expect(reader.Announced(ctx)).NotTo(ContainElement(identityOf(next)))
		report(ctx, next)
		Eventually(reader.Announced).WithContext(ctx).Should(ContainElement(identityOf(next)))
	})

	It("are five a second", func(ctx SpecContext) {
		const policies = 12
		leadEmpty(ctx, terms, plans)
		reader.awaitRounds(ctx) // the first round of a term takes reports for old
		all := make([]*v1alpha1.RateLimitPolicy, policies)
		for i := range all {
			all[i] = create(ctx, fmt.Sprint("p", i))
		}
		report(ctx, all...)
		events := func(g Gomega, ctx SpecContext) (at []time.Time) {
			list := &eventsv1.EventList{}
			g.Expect(api.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			for _, e := range list.Items {
				if e.Reason == "DenialsBegan" {
					at = append(at, e.EventTime.Time)
				}
			}
			return at
		}
		Eventually(events).WithContext(ctx).Should(HaveLen(policies))
		bySecond := map[int64]int{}
		for _, at := range events(Default, ctx) {
			bySecond[at.UnixMilli()/500]++
		}
		for _, n := range bySecond {
			Expect(n).To(BeNumerically("<=", 5))
		}
		Expect(reader.Announced(ctx)).To(HaveLen(policies))
	})
})

var _ controller.Denials = (*traffic.Reader)(nil)
