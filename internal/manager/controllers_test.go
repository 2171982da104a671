// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/test/testenv/kube"
)

// The kubelet forgets the back-off of earlier restarts once a container has run for 10
// minutes, so a restart before that would delay the next one.
func TestFailedManagerIsUnhealthyOnlyInAnOldProcess(t *testing.T) {
	g := NewWithT(t)
	started := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	age := time.Duration(0)
	c := &controllers{
		options: &Options{Options: endpoint.Options{Logger: slog.New(slog.DiscardHandler)}}, started: started, now: func() time.Time { return started.Add(age) },
	}
	age = time.Hour
	g.Expect(c.Err()).NotTo(HaveOccurred(), "it runs")

	failure := errors.New("no such kind")
	age = time.Second
	c.fail(failure)
	for _, age = range []time.Duration{time.Second, 10 * time.Minute} {
		g.Expect(c.Err()).NotTo(HaveOccurred(), age.String())
	}
	age = 10*time.Minute + time.Second
	g.Expect(c.Err()).To(MatchError(failure))
}

// The API server begins to serve a kind as soon as its CRD is established, so it may have one of them only.
func TestKindsAreAwaited(t *testing.T) {
	g := NewWithT(t)
	server := kube.StartAPIServer(t, func(env *envtest.Environment) { env.CRDs = nil })
	install := func(file string) {
		_, err := envtest.InstallCRDs(server.Config, envtest.CRDInstallOptions{Paths: []string{"../../config/crd/bases/" + file}})
		g.Expect(err).NotTo(HaveOccurred())
	}
	log := gbytes.NewBuffer()
	c := &controllers{options: &Options{Config: server.Config, Options: endpoint.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}}}
	found := make(chan meta.RESTMapper, 1)
	go func() {
		mapper, _ := c.awaitAPI(t.Context())
		found <- mapper
	}()
	g.Eventually(log).WithTimeout(30 * time.Second).Should(gbytes.Say("does not serve RateLimitException, RateLimitKeyGroup, RateLimitPolicy"))
	install("ratelimit.weir.dev_ratelimitkeygroups.yaml")
	g.Eventually(log).WithTimeout(30 * time.Second).Should(gbytes.Say("does not serve RateLimitException, RateLimitPolicy"))
	install("ratelimit.weir.dev_ratelimitexceptions.yaml")
	install("ratelimit.weir.dev_ratelimitpolicies.yaml")
	var mapper meta.RESTMapper
	g.Eventually(found).WithTimeout(30 * time.Second).Should(Receive(&mapper))
	g.Expect(findKinds(mapper)).To(Succeed())
}
