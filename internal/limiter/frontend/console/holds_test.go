// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/internal/limiter/server/endpoint"
	"github.com/weir-dev/weir/test/testenv"
)

// The page of a key shows which of its units reservations or slices hold. Checks from slices count as decisions.
func TestHeldUnits(t *testing.T) {
	g := NewWithT(t)
	client, err := redisclient.New(testenv.StartRedis(t).URL, time.Minute)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	s := start(t, func(o *endpoint.Options) { o.Redis, o.StoreTimeout, o.SliceKeys = client, 5*time.Second, 100 })
	sliced, reserved := policy("shop", "sliced"), policy("shop", "reserved")
	sliced.Slices, sliced.Limits[0].Threshold = plan.Slices{MaxPercent: 50, MaxAgeMillis: 10_000}, 10_000
	reserved.Reservations, reserved.Limits[0].Threshold = plan.Reservations{MaxTTLMillis: 60_000, MaxOpen: 10}, 1234
	s.e.Use(index.NewSnapshot(8, []*plan.Plan{sliced, reserved}))
	check := func(policy string) limiter.Check {
		return limiter.Check{Policies: []string{policy}, Key: []string{"bob"}, Cost: 1}
	}
	b := s.logIn("reader")
	open := func(policy string) string {
		b.open("/console/key?key=bob&asGiven=true&policy=" + policy)
		g.Expect(b.status).To(Equal(http.StatusOK), b.page)
		return b.page
	}
	g.Expect(open("shop/sliced")).To(And(ContainSubstring("<b>0</b> of 10,000 used</span>"), Not(ContainSubstring("Held units"))))

	ofSlices, checks := check("shop/sliced"), int64(0)
	g.Eventually(func() (bool, error) {
		checks++
		d, err := s.e.Decide(t.Context(), &ofSlices)
		return err == nil && d.FromSlice, err
	}).Should(BeTrue())
	g.Expect(open("shop/sliced")).To(And(
		MatchRegexp(`<b>[0-9,]+</b> of 10,000 used, [0-9,]+ of them held</span>`),
		ContainSubstring(`Held units are in <b>slices</b>, <span class="num">1</span> now`),
		Not(ContainSubstring("reservations</b>"))))

	g.Eventually(func() int64 {
		var top httptypes.TopList
		status, body := s.send(http.MethodGet, "/v1/top?policy=shop/sliced", "reader")
		g.Expect(status).To(Equal(http.StatusOK), body)
		g.Expect(json.Unmarshal([]byte(body), &top)).To(Succeed(), body)
		return top.Total.LastHour.Allowed
	}, "30s").Should(Equal(checks))

	reserve := limiter.Reserve{Check: check("shop/reserved")}
	reserve.Check.Cost = 7
	g.Expect(s.e.Reserve(t.Context(), &reserve)).Error().NotTo(HaveOccurred())
	g.Expect(open("shop/reserved")).To(And(
		ContainSubstring("<b>7</b> of 1,234 used, 7 of them held</span>"),
		ContainSubstring(`Held units are in open <b>reservations</b>, <span class="num">1</span> now`),
		Not(ContainSubstring("slices</b>"))))
}
