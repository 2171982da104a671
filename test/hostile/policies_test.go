// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/limiter/expression"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/expressiontest"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// The hosts of the policies. The hosts of a tenant have its worst policies.
const (
	platformHost    = "platform.example"
	ordinaryHost    = "ordinary.example"
	chainHost       = "chain.example"
	crowdHost       = "crowd.example"
	expressionHost  = "expression.example"
	overrideHost    = "override.example"
	longKeyHost     = "long-key.example"
	newKeyHost      = "new-key.example"
	reserveHost     = "reserve.example"
	blockHost       = "block.example"
	userHeader      = "X-User"
	descriptorCount = 64 // of one request of Envoy
)

// never is a threshold that no load exceeds.
const never = 1_000_000_000

// policy is the start of a policy for a host, and for the Envoy domain of the same name.
func policy(name, host string) *testpolicy.Builder {
	return testpolicy.Make(name).
		Match(v1alpha1.Match{Hosts: []string{host}}).
		Match(v1alpha1.Match{Domain: host})
}

// platformPolicies are the policies of the others: an unrelated host, and a limit for each client address of
// every host, which the requests of the attacks spend too.
func platformPolicies() []*v1alpha1.RateLimitPolicy {
	user := `"user" in descriptor ? descriptor["user"] : request.headers["x-user"]`
	return []*v1alpha1.RateLimitPolicy{
		policy("platform/api", platformHost).Key(testpolicy.ExpressionPart(user)).
			Limit("minute", v1alpha1.AlgorithmSlidingWindow, never, "1m").
			Limit("hour", v1alpha1.AlgorithmFixedWindow, never, "1h").Obj(),
		policy("platform/all", "*.example").Key(testpolicy.RemoteAddressPart()).
			Limit("hour", v1alpha1.AlgorithmFixedWindow, never, "1h").Obj(),
		policy("ordinary/api", ordinaryHost).Key(testpolicy.ExpressionPart(user)).
			Limit("minute", v1alpha1.AlgorithmFixedWindow, never, "1m").Obj(),
	}
}

// hostilePolicies are the most expensive ones of each kind that Weir accepts.
func hostilePolicies(tb testing.TB) []*v1alpha1.RateLimitPolicy {
	tb.Helper()
	return slices.Concat(chains(), crowds(), expressions(tb), overrides(), longKeys(), reserved(), blocks())
}

// costlyLimits adds limits of the algorithms that take the longest.
func costlyLimits(b *testpolicy.Builder, count int) *testpolicy.Builder {
	algorithms := []v1alpha1.Algorithm{
		v1alpha1.AlgorithmSlidingLog, v1alpha1.AlgorithmSlidingWindow, v1alpha1.AlgorithmTokenBucket, v1alpha1.AlgorithmGCRA,
	}
	for i := range count {
		algorithm := algorithms[i%len(algorithms)]
		threshold := int64(1_000_000)
		if algorithm == v1alpha1.AlgorithmSlidingLog {
			threshold = 100_000
		}
		var set []func(*v1alpha1.Limit)
		if algorithm == v1alpha1.AlgorithmTokenBucket || algorithm == v1alpha1.AlgorithmGCRA {
			set = append(set, testpolicy.Burst(100_000))
		}
		b.Limit(fmt.Sprint("limit-", i), algorithm, threshold, "1h", set...)
	}
	return b
}

// chains are 480 policies of one tenant for the same requests.
func chains() (policies []*v1alpha1.RateLimitPolicy) {
	for i := range 480 {
		policies = append(policies, costlyLimits(policy(chainPolicy(i), chainHost).
			Key(testpolicy.HeaderPart(userHeader)), plan.MaxLimits).Obj())
	}
	return policies
}

func chainPolicy(i int) string { return fmt.Sprintf("chain/p%03d", i) }

// reserved are policies that take reservations.
func reserved() (policies []*v1alpha1.RateLimitPolicy) {
	for i := range plan.MaxNamespacePolicies {
		policies = append(policies, costlyLimits(policy(fmt.Sprintf("reserve/p%02d", i), reserveHost).
			Key(testpolicy.HeaderPart(userHeader)), plan.MaxNamespaceLimits/plan.MaxNamespacePolicies).
			Reservations("1s", plan.MaxOpenReservations).Obj())
	}
	return policies
}

// crowds are the policies of nine tenants for the same requests, which take all the room there is.
func crowds() (policies []*v1alpha1.RateLimitPolicy) {
	for i := range plan.MaxMatchedPolicies/plan.MaxNamespacePolicies + 1 {
		for j := range plan.MaxNamespacePolicies {
			policies = append(policies, costlyLimits(policy(fmt.Sprintf("crowd-%d/p%02d", i, j), crowdHost).
				Key(testpolicy.HeaderPart(userHeader)), plan.MaxNamespaceLimits/plan.MaxNamespacePolicies).Obj())
		}
	}
	return policies
}

// blockSharers is the number of matches that share their hosts, and of matches that share their paths.
const blockSharers = 12

// blocks are 480 policies of one tenant, within the budgets of a Namespace, whose matches have as many hosts and paths as
// they may. An index by both would copy each match 1,024 times.
func blocks() (policies []*v1alpha1.RateLimitPolicy) {
	const count = 480
	all := count * plan.MaxMatches / blockSharers
	for i := range count {
		b := testpolicy.Make(fmt.Sprintf("block/p%03d", i))
		for j := range plan.MaxMatches {
			n := i*plan.MaxMatches + j
			var m v1alpha1.Match
			for k := range plan.MaxPatterns {
				m.Hosts = append(m.Hosts, fmt.Sprintf("%x.%s", n/blockSharers*plan.MaxPatterns+k, blockHost))
				m.Paths = append(m.Paths, fmt.Sprintf("/%x", (n/blockSharers+7*(n%blockSharers))%all*plan.MaxPatterns+k))
			}
			b.Match(m)
		}
		policies = append(policies, b.Limit("hour", v1alpha1.AlgorithmFixedWindow, never, "1h").Obj())
	}
	return policies
}

// expressions are policies of three tenants. Each hostile expression has a path, and each tenant as many
// policies for it as its share of a decision admits.
func expressions(tb testing.TB) (policies []*v1alpha1.RateLimitPolicy) {
	tb.Helper()
	for i, text := range expressiontest.Hostile {
		compiled, err := expression.Compile[bool](text)
		NewWithT(tb).Expect(err).NotTo(HaveOccurred(), text)
		count := min(plan.MaxNamespacePolicies, int(expression.MaxPrice/max(1, compiled.Price())))
		for tenant := range 3 {
			for j := range max(1, count) {
				policies = append(policies, testpolicy.Make(fmt.Sprintf("expression-%d/p%03d-%02d", tenant, i, j)).
					Match(v1alpha1.Match{Hosts: []string{expressionHost}, Paths: []string{expressionPath(i) + "*"}, When: text}).
					Limit("hour", v1alpha1.AlgorithmFixedWindow, never, "1h").Obj())
			}
		}
	}
	return policies
}

// expressionPath is the path of the i-th hostile expression.
func expressionPath(i int) string { return "/" + strconv.Itoa(i) + "/" }

// overrides are policies with as many keys and networks in overrides as a plan may have.
func overrides() (policies []*v1alpha1.RateLimitPolicy) {
	for i := range 4 {
		b := costlyLimits(policy(fmt.Sprint("override/p", i), overrideHost).Key(testpolicy.HeaderPart(userHeader)), plan.MaxLimits)
		for o := range 64 {
			override := v1alpha1.Override{Name: fmt.Sprint("o", o), Action: v1alpha1.OverrideActionAllow}
			for k := range 256 {
				if i%2 == 0 {
					override.Keys = append(override.Keys, overriddenKey(o, k))
				} else if k < 100 {
					override.CIDRs = append(override.CIDRs, fmt.Sprintf("10.%d.%d.0/24", o, k))
				}
			}
			b.Override(override)
		}
		policies = append(policies, b.Obj())
	}
	return policies
}

// overriddenKey is a key of an override.
func overriddenKey(override, key int) string { return fmt.Sprintf("%x", override<<8|key) }

// longKeys are policies with keys of eight parts, and one for new keys.
func longKeys() (policies []*v1alpha1.RateLimitPolicy) {
	for i := range plan.MaxNamespacePolicies {
		b := policy(fmt.Sprintf("long-key/p%02d", i), longKeyHost)
		for part := range 8 {
			b.Key(testpolicy.HeaderPart(fmt.Sprintf("X-%d-%d", i%4, part)))
		}
		policies = append(policies, costlyLimits(b, plan.MaxNamespaceLimits/plan.MaxNamespacePolicies).Obj())
	}
	key := testpolicy.ExpressionPart(`"user" in descriptor ? descriptor["user"] : request.headers["x-user"]`)
	return append(policies, costlyLimits(policy("new-key/p", newKeyHost).Key(key), plan.MaxLimits).Obj())
}

// policyFolder writes the policies of all into a folder.
func policyFolder(tb testing.TB) string {
	tb.Helper()
	g := NewWithT(tb)
	folder, err := os.MkdirTemp("", "weir-hostile-") //nolint:usetesting // the flag takes a list, and TempDir may have commas
	g.Expect(err).NotTo(HaveOccurred())
	tb.Cleanup(func() { _ = os.RemoveAll(folder) })
	for i, p := range append(platformPolicies(), hostilePolicies(tb)...) {
		text, err := json.Marshal(p)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.WriteFile(filepath.Join(folder, fmt.Sprintf("%04d.json", i)), text, 0o600)).To(Succeed())
	}
	return folder
}
