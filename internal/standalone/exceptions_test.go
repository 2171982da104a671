// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/test/testenv"
)

// exceptionText is an exception to the limit hourly of policy shop/login for alice.
func exceptionText(name string, threshold int, until time.Time) string {
	return fmt.Sprintf(`apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitException
metadata: {name: %s, namespace: shop}
spec: {policy: login, key: [alice], until: %q, limits: [{name: hourly, threshold: %d}]}
`, name, until.UTC().Format(time.RFC3339), threshold)
}

func (r *running) exceptionOf(t *testing.T, key string) string {
	t.Helper()
	d, err := r.Decide(t.Context(), &limiter.Check{Policies: []string{"shop/login"}, Key: []string{key}, Cost: 1, Peek: true})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return d.Limits[0].Exception
}

// Without Redis an exception ends by the clock of this process; with it, by the clock of Redis.
func TestExceptionsFromFiles(t *testing.T) {
	for name, clocked := range map[string]bool{"memory": false, "Redis": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			url, now := "", time.Now
			setRedis := func(time.Time) {}
			if clocked {
				server, clock := testenv.StartRedisWithClock(t)
				clock.Set(time.Now())
				url, setRedis = "redis://"+server.Addr, clock.Set
				now = func() time.Time { return time.Now().Add(-30 * 24 * time.Hour) } // of no effect
			}
			until := time.Now().Add(time.Hour)
			r := startWithClock(t, url, map[string]string{"a.yaml": exceptionText("raised", 20, until), "b.yaml": policyText("login", 5)}, now)
			g.Eventually(func() string { return r.exceptionOf(t, "alice") }, "30s").Should(Equal("raised"))
			g.Expect(r.exceptionOf(t, "bob")).To(BeEmpty())
			if clocked {
				setRedis(until.Add(time.Second))
			} else {
				r.write(t, "a.yaml", exceptionText("raised", 20, time.Now().Add(-time.Second)))
			}
			g.Eventually(func() string { return r.exceptionOf(t, "alice") }, "30s").Should(BeEmpty())
		})
	}
}

func TestExceptionsAreJudgedByThePoliciesOfAllFiles(t *testing.T) {
	g, dir, until := NewWithT(t), t.TempDir(), time.Now().Add(time.Hour)
	write := func(name, text string) {
		t.Helper()
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	files := newPolicyFiles([]string{dir})
	write("a.yaml", exceptionText("raised", 20, until))
	_, errs := files.load(t.Context())
	g.Expect(errs).To(ConsistOf(MatchError(HaveSuffix(`a.yaml:4:8: RateLimitException shop/raised: spec.policy: Not found: "login"`))))

	write("b.yaml", policyText("login", 5))
	snapshot, errs := files.load(t.Context())
	g.Expect(errs).To(BeEmpty())
	first := snapshot.Exceptions()
	g.Expect(first).To(HaveLen(1))
	again, _ := files.load(t.Context())
	g.Expect(again).To(BeNil(), "nothing changed")

	write("c.yaml", policyText("search", 5))
	snapshot, errs = files.load(t.Context())
	g.Expect(errs).To(BeEmpty())
	g.Expect(snapshot.Exceptions()[0]).To(BeIdenticalTo(first[0]))

	write("b.yaml", policyText("login", 1)) // accepts 10 at most
	snapshot, errs = files.load(t.Context())
	g.Expect(errs).To(ConsistOf(MatchError(ContainSubstring("spec.limits[0].threshold: Forbidden: 20 is more than 10"))))
	g.Expect(snapshot.Exceptions()).To(BeEmpty(), "an exception that its policy no longer accepts ends")

	write("a.yaml", exceptionText("raised", 10, until)+"---\n"+strings.Replace(exceptionText("raised", 9, until), "alice", "bob", 1))
	snapshot, errs = files.load(t.Context())
	g.Expect(errs).To(ConsistOf(MatchError(ContainSubstring("RateLimitException shop/raised is also defined in"))))
	g.Expect(snapshot.Exceptions()).To(HaveLen(1))
}
