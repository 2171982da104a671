// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package redisclient_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

func TestDiagnose(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := testenv.StartRedis(t, "--maxmemory", "100mb")
	client := newClient(t, server.URL, commandTimeout)
	d := redisclient.Diagnose(t.Context(), client, "weir:")
	g.Expect(d.Problems).To(BeEmpty())
	g.Expect(d.Servers).To(ConsistOf(MatchRegexp(`^redis \d+\.\d+\.\d+$`)))
	g.Expect(d.OldestTested).To(BeEmpty())
	g.Expect(d.Evictions).To(Equal([]string{"noeviction"}))
	g.Expect(d.MemoryUse).To(And(BeNumerically(">", 0.001), BeNumerically("<", 0.5)))
	g.Eventually(func() int64 { return client.DBSize(t.Context()).Val() }).Should(BeZero(), "it leaves no keys")

	g.Expect(client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err()).To(Succeed())
	g.Expect(redisclient.Diagnose(t.Context(), client, "weir:").Evictions).To(Equal([]string{"allkeys-lru"}))

	for _, tc := range []struct {
		rules   []any
		problem string
	}{
		{[]any{"~other:*", "&weir:*", "+@all"}, "a script that writes: "},
		{[]any{"~weir:*", "&other:*", "+@all"}, "PUBLISH: NOPERM"},
		{[]any{"~weir:*", "&weir:*", "+@all", "-@dangerous", "-@admin"}, "INFO memory: NOPERM"},
		{[]any{"~weir:*", "&weir:*", "+@all", "-@scripting"}, "a script that writes: NOPERM"},
		{[]any{"~weir:*", "&weir:*", "+@all", "-@admin", "-@dangerous", "+info"}, ""}, // docs/install.md
	} {
		rules, problem := tc.rules, tc.problem
		g.Expect(client.Do(t.Context(), append([]any{"ACL", "SETUSER", "probe", "reset", "on", ">p"}, rules...)...).Err()).To(Succeed())
		restricted := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "probe", Password: "p"})
		problems := redisclient.Diagnose(t.Context(), restricted, "weir:").Problems
		if problem == "" {
			g.Expect(problems).To(BeEmpty(), rules)
		} else {
			g.Expect(problems).To(ConsistOf(HavePrefix(problem)), rules)
		}
		g.Expect(restricted.Close()).To(Succeed())
	}

	server.Stop()
	g.Expect(redisclient.Diagnose(t.Context(), client, "weir:").Problems).To(HaveLen(1))
}

func TestDiagnoseACluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	d := redisclient.Diagnose(t.Context(), newClient(t, testenv.StartRedisCluster(t).URL, commandTimeout), "weir:")
	g.Expect(d.Problems).To(BeEmpty())
	g.Expect(d.Servers).To(HaveLen(1))
	g.Expect(d.Evictions).To(Equal([]string{"noeviction"}))
}
