// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/redisclient"
	"github.com/weir-dev/weir/test/testenv"
)

// policy returns a plan for the path.
func policy(namespace, name, path string, edit func(*plan.Plan)) *plan.Plan {
	p := &plan.Plan{
		Namespace: namespace, Name: name, Mode: plan.ModeEnforce,
		Matches: []plan.Match{{Paths: []string{path}}},
	}
	if edit != nil {
		edit(p)
	}
	return p
}

var plans = index.NewSnapshot(1, []*plan.Plan{
	policy("shop", "all", "/*", nil),
	policy("shop", "login", "/login", func(p *plan.Plan) { p.Matches[0].Methods = []string{"POST"} }),
	policy("shop", "off", "/login", func(p *plan.Plan) { p.Mode = plan.ModeDisabled }),
	policy("shop", "other", "/other", nil),
	policy("bank", "all", "/*", nil),
})

// clock is a clock that tests set.
type clock struct{ now time.Time }

func newProber(store Store, c *clock) *Prober {
	return New(Options{
		Store: store, Snapshot: func() *index.Snapshot { return plans }, Timeout: time.Minute, Now: func() time.Time { return c.now },
		ReplicaName: "weir-1", Logger: slog.New(slog.DiscardHandler),
	})
}

func request(code string) *Request {
	return &Request{Codes: []string{code}, Frontend: "test", Attributes: &plan.Attributes{
		Method: "head", Host: "Shop.example:443", Path: "/x/../login?a=b", RemoteAddress: netip.MustParseAddr("192.0.2.1"), Principal: "bob",
		Targets: []plan.Target{"HTTPRoute/shop/shop/checkout", "Gateway/infra/public"},
	}}
}

func reportOf(t *testing.T, text string) *httptypes.ProbeReport {
	t.Helper()
	report := &httptypes.ProbeReport{}
	NewWithT(t).Expect(json.Unmarshal([]byte(text), report)).To(Succeed(), text)
	return report
}

// A code is answered once, by any replica.
func TestCodeIsAnsweredOnce(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	server := testenv.StartRedis(t)
	client, err := redisclient.New(server.URL, time.Minute)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close() })
	for name, store := range map[string]Store{"Redis": NewRedisStore(client, "weir:"), "memory": NewMemoryStore(func() time.Time { return c.now })} {
		t.Run(name, func(t *testing.T) {
			g, issuer, replica := NewWithT(t), newProber(store, c), newProber(store, c)
			code, err := issuer.Issue(t.Context(), Grant{Namespace: "shop", Method: "POST"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(hasForm(code)).To(BeTrue(), code)
			r := request(code)
			text, ok := replica.Answer(t.Context(), r)
			g.Expect(ok).To(BeTrue())
			g.Expect(reportOf(t, text)).To(Equal(&httptypes.ProbeReport{
				Frontend: "test", Replica: "weir-1", Method: "HEAD", Host: "shop.example", Path: "/login", RemoteAddress: "192.0.2.1", Principal: "bob",
				Targets:  []string{"HTTPRoute/shop/shop/checkout", "Gateway/infra/public"},
				Policies: []string{"shop/all", "shop/login"}, OtherPolicies: 1,
			}))
			g.Expect(r.Attributes.Path).To(Equal("/x/../login?a=b"), "not changed")
			_, ok = replica.Answer(t.Context(), r)
			g.Expect(ok).To(BeFalse(), "twice")
			_, ok = issuer.Answer(t.Context(), r)
			g.Expect(ok).To(BeFalse(), "twice")
		})
	}

	t.Run("Redis has the hash, for a minute", func(t *testing.T) {
		g, p := NewWithT(t), newProber(NewRedisStore(client, "weir:"), c)
		code, err := p.Issue(t.Context(), Grant{})
		g.Expect(err).NotTo(HaveOccurred())
		keys, err := client.Keys(t.Context(), "*").Result()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(keys).To(Equal([]string{"weir:1:probe:" + hashOf(code)}))
		g.Expect(keys[0]).NotTo(ContainSubstring(code))
		left, err := client.PTTL(t.Context(), keys[0]).Result()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(left).To(And(BeNumerically(">", 50*time.Second), BeNumerically("<=", Life)))
	})

	t.Run("without Redis", func(t *testing.T) {
		g, p := NewWithT(t), newProber(NewRedisStore(client, "weir:"), c)
		code, err := p.Issue(t.Context(), Grant{})
		g.Expect(err).NotTo(HaveOccurred())
		server.Stop()
		_, ok := p.Answer(t.Context(), request(code))
		g.Expect(ok).To(BeFalse())
		_, err = p.Issue(t.Context(), Grant{})
		g.Expect(err).To(HaveOccurred())
	})
}

func TestMemoryForgetsCodes(t *testing.T) {
	g, c := NewWithT(t), &clock{now: time.Unix(1000, 0)}
	store := NewMemoryStore(func() time.Time { return c.now })
	p := newProber(store, c)
	code, err := p.Issue(t.Context(), Grant{})
	g.Expect(err).NotTo(HaveOccurred())
	c.now = c.now.Add(Life)
	_, ok := p.Answer(t.Context(), request(code))
	g.Expect(ok).To(BeFalse(), "too late")
	for range maxCodes {
		_, err = p.Issue(t.Context(), Grant{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	_, err = p.Issue(t.Context(), Grant{})
	g.Expect(err).To(MatchError(errFull))
	c.now = c.now.Add(Life)
	_, err = p.Issue(t.Context(), Grant{})
	g.Expect(err).NotTo(HaveOccurred(), "the others have ended")
}

// countingStore counts look-ups, and has no code.
type countingStore struct{ takes int }

func (*countingStore) Put(context.Context, string, Grant, time.Duration) error { return nil }

func (s *countingStore) Take(context.Context, string) (Grant, bool, error) {
	s.takes++
	return Grant{}, false, nil
}

// A flood of invented codes costs few look-ups, and codes of another form none.
func TestLookUpsAreBounded(t *testing.T) {
	g, c, store := NewWithT(t), &clock{now: time.Unix(1000, 0)}, &countingStore{}
	p := newProber(store, c)
	for _, codes := range [][]string{
		nil,
		{""},
		{"short"},
		{strings.Repeat("a", codeLength)},
		{strings.Repeat("A", codeLength+1)},
		{strings.Repeat("A", codeLength-1) + "1"},
		{newCode(), newCode()},
	} {
		_, ok := p.Answer(t.Context(), &Request{Codes: codes, Attributes: &plan.Attributes{}})
		g.Expect(ok).To(BeFalse())
	}
	g.Expect(store.takes).To(BeZero())
	for second := range 3 {
		for range 1000 {
			p.Answer(t.Context(), request(newCode()))
		}
		g.Expect(store.takes).To(Equal(lookupsPerSecond * (second + 1)))
		c.now = c.now.Add(time.Second)
	}
	var none *Prober
	_, ok := none.Answer(t.Context(), request(newCode()))
	g.Expect(ok).To(BeFalse())
}

// grantingStore accepts every code.
type grantingStore struct {
	countingStore

	grant Grant
}

func (s *grantingStore) Take(context.Context, string) (Grant, bool, error) { return s.grant, true, nil }

func TestReports(t *testing.T) {
	long := strings.Repeat("\U0001F40C\x01", 1000)
	for name, tc := range map[string]struct {
		grant Grant
		edit  func(r *Request)
		check func(g *WithT, report *httptypes.ProbeReport)
	}{
		"the method of the request": {Grant{}, func(*Request) {}, func(g *WithT, report *httptypes.ProbeReport) {
			g.Expect(report.Policies).To(Equal([]string{"bank/all", "shop/all"}))
			g.Expect(report.OtherPolicies).To(BeZero())
		}},
		"named policies": {
			Grant{Namespace: "shop"},
			func(r *Request) { r.Policies = []string{"bank/all", "shop/other", "shop/nonesuch", "shop/off"} },
			func(g *WithT, report *httptypes.ProbeReport) {
				g.Expect(report.Policies).To(Equal([]string{"shop/other"}))
				g.Expect(report.OtherPolicies).To(Equal(1))
			},
		},
		"a problem": {Grant{}, func(r *Request) { r.Problem = errors.New("bad") }, func(g *WithT, report *httptypes.ProbeReport) {
			g.Expect(report.Problem).To(Equal("bad"))
			g.Expect(report.Policies).To(BeEmpty())
		}},
		"nothing known": {Grant{}, func(r *Request) { r.Attributes = &plan.Attributes{} }, func(g *WithT, report *httptypes.ProbeReport) {
			g.Expect(report.RemoteAddress).To(BeEmpty())
			g.Expect(report.Targets).To(BeEmpty())
		}},
		"a long path": {Grant{}, func(r *Request) { r.Attributes.Path = "/" + strings.Repeat("a", 5000) }, func(g *WithT, report *httptypes.ProbeReport) {
			g.Expect(report.Path).To(Equal("/" + strings.Repeat("a", maxText-1) + "... (5001 bytes)"))
			g.Expect(report.Policies).To(HaveLen(2))
		}},
		"many targets": {Grant{}, func(r *Request) {
			r.Attributes.Targets = nil
			for range plan.MaxTargets {
				r.Attributes.Targets = append(r.Attributes.Targets, plan.Target("HTTPRoute/"+strings.Repeat("n", 63)+"/"+strings.Repeat("r", 253)))
			}
		}, func(g *WithT, report *httptypes.ProbeReport) {
			g.Expect(report.OtherPolicies).To(Equal(2))
			g.Expect(len(report.Targets) + report.OtherTargets).To(Equal(plan.MaxTargets))
			g.Expect(report.Targets).NotTo(BeEmpty())
		}},
		"everything too large": {Grant{}, func(r *Request) {
			*r.Attributes = plan.Attributes{Method: long, Host: long, Path: long, Principal: long, Domain: long}
		}, func(g *WithT, report *httptypes.ProbeReport) {
			g.Expect(report.Problem).To(Equal("the request is too large for a report"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := newProber(&grantingStore{grant: tc.grant}, &clock{})
			r := request(newCode())
			tc.edit(r)
			text, ok := p.Answer(t.Context(), r)
			g.Expect(ok).To(BeTrue())
			g.Expect(len(text)).To(BeNumerically("<=", maxAnswer))
			g.Expect(text).To(MatchRegexp(`^[ -~]*$`), "ASCII without control characters")
			tc.check(g, reportOf(t, text))
		})
	}
}

func TestWithoutPlans(t *testing.T) {
	g := NewWithT(t)
	p := newProber(&grantingStore{}, &clock{})
	p.options.Snapshot = func() *index.Snapshot { return nil }
	text, ok := p.Answer(t.Context(), request(newCode()))
	g.Expect(ok).To(BeTrue())
	g.Expect(reportOf(t, text).Problem).To(Equal("no plans have been loaded yet"))
}
