// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"errors"
	"sync/atomic"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/controller"
	"github.com/weir-dev/weir/internal/gatewayapi"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// The outcomes that the specs expect.
var (
	enforced = outcome{
		"True Ready", "True Accepted", "True Programmed", "True Enforced", status.CurrentStatus,
	}
	unreachable = outcome{
		"Unknown Pending", "True Accepted", "Unknown RegistryUnreachable", "Unknown RegistryUnreachable", status.InProgressStatus,
	}
	ownedElsewhere = outcome{
		"False NotReady", "True Accepted", "False RegistryOwnedElsewhere", "False NotProgrammed", status.InProgressStatus,
	}
	noReplicas = outcome{
		"False NotReady", "True Accepted", "True Programmed", "False NoReplicas", status.InProgressStatus,
	}
	replicasBehind = outcome{
		"False NotReady", "True Accepted", "True Programmed", "False ReplicasBehind", status.InProgressStatus,
	}
	invalid = outcome{
		"False NotReady", "False InvalidSpec", "False NotAccepted", "False NotProgrammed", status.FailedStatus,
	}
	notSupported = outcome{
		"False NotReady", "False NotSupported", "False NotAccepted", "False NotProgrammed", status.FailedStatus,
	}
	overBudget = outcome{
		"False NotReady", "False OverBudget", "False NotAccepted", "False NotProgrammed", status.FailedStatus,
	}
	notPermitted = outcome{
		"False NotReady", "False MatchNotPermitted", "False NotAccepted", "False NotProgrammed", status.FailedStatus,
	}
)

// subject is the policy of a spec, and the controller that reconciles it.
type subject struct {
	policy   *v1alpha1.RateLimitPolicy
	id       string
	plans    *registry
	terms    *controller.TermTracker
	writes   *atomic.Int64 // of statuses
	noGrants atomic.Bool   // no Namespace can be read
	cached   client.Reader
	unready  func() plan.Unready
	gateways *gatewayapi.Cache // nil without sightings
}

// setUp starts the controller, which does not lead yet, and prepares a policy.
func setUp(ctx SpecContext, tenancy compile.Tenancy) *subject { return setUpWith(ctx, tenancy, nil) }

// setUpWith is setUp with sightings; nil has none.
func setUpWith(ctx SpecContext, tenancy compile.Tenancy, traffic controller.Traffic) *subject {
	namespace := makeNamespace(ctx)
	s := &subject{id: namespace + "/login", plans: newRegistry(), terms: controller.NewTermTracker()}
	s.policy = testpolicy.Make(s.id).
		Match(v1alpha1.Match{Hosts: []string{"shop.example"}}).
		Limit("burst", v1alpha1.AlgorithmSlidingLog, 5, "1m").
		Limit("daily", v1alpha1.AlgorithmSlidingLog, 20, "24h").Obj()
	s.writes, s.cached = startController(options{
		namespace: namespace, tenancy: tenancy, traffic: traffic, gateways: traffic != nil, publisher: s.plans, terms: s.terms, outageDelay: outageDelay,
		started: func(r *controller.Reconciler) { s.unready, s.gateways = r.Unready, r.Gateways },
		beforeGrant: func() error {
			if s.noGrants.Load() {
				return errors.New("no answer")
			}
			return nil
		},
	})
	return s
}

// awaitGateways waits until the objects of the Gateway API are read, of every kind. Until then conditions stay as they are, so
// that on a busy machine one is left of an earlier step.
func (s *subject) awaitGateways(ctx SpecContext) {
	GinkgoHelper()
	s.gateways.Want()
	Eventually(func() gatewayapi.Finding { return s.gateways.Snapshot().Judge(nil) }).WithContext(ctx).Should(BeZero())
}

func (s *subject) apply(ctx SpecContext) {
	GinkgoHelper()
	Expect(api.Create(ctx, s.policy.DeepCopy())).To(Succeed())
}

func (s *subject) becomes(ctx SpecContext, want outcome) {
	GinkgoHelper()
	Eventually(outcomeOf(s.policy)).WithContext(ctx).Should(Equal(want))
}

func (s *subject) stays(ctx SpecContext, want outcome) {
	GinkgoHelper()
	Consistently(outcomeOf(s.policy)).WithContext(ctx).Should(Equal(want))
}

// threshold returns the first threshold of the plan, 0 without one.
func (s *subject) threshold() int64 {
	if p := s.plans.plan(s.id); p != nil {
		return p.Limits[0].Threshold
	}
	return 0
}
