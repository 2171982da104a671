// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter/frontend/httptypes"
)

// clockAt is a clock that tests set.
type clockAt struct{ time.Time }

func (c *clockAt) now() time.Time { return c.Time }

func (c *clockAt) pass(d time.Duration) { c.Time = c.Add(d) }

func newTestSessions() (*sessions, *clockAt) {
	at := &clockAt{time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	return newSessions(at.now), at
}

func TestCodeIsUsedOnce(t *testing.T) {
	g := NewWithT(t)
	s, _ := newTestSessions()
	code := s.newCode("token", "alice")
	g.Expect(len(code)).To(BeNumerically(">=", 22), "128 bits")
	g.Expect(s.exchange("forged")).To(BeNil())
	made := s.exchange(code)
	g.Expect(made).NotTo(BeNil())
	g.Expect(made.token).To(Equal("token"))
	g.Expect(made.claimedUser).To(Equal("alice"))
	g.Expect(s.exchange(code)).To(BeNil())
	g.Expect(s.find(made.id)).To(Equal(made))
	g.Expect(s.find(code)).To(BeNil(), "a code is no session")
}

func TestCodeExpires(t *testing.T) {
	g := NewWithT(t)
	s, at := newTestSessions()
	first, second := s.newCode("token", ""), s.newCode("token", "")
	at.pass(codeLife - 1)
	g.Expect(s.exchange(first)).NotTo(BeNil())
	at.pass(1)
	g.Expect(s.exchange(second)).To(BeNil())
}

// The session ends with the token, which was issued before the code.
func TestSessionEndsTenMinutesAfterTheCode(t *testing.T) {
	g := NewWithT(t)
	s, at := newTestSessions()
	code := s.newCode("token", "")
	at.pass(20 * time.Second)
	made := s.exchange(code)
	at.pass(sessionLife - 20*time.Second - 1)
	g.Expect(s.find(made.id)).NotTo(BeNil())
	at.pass(1)
	g.Expect(s.find(made.id)).To(BeNil())
	g.Expect(s.open).To(BeEmpty())
}

func TestSessionsAndCodesAreBounded(t *testing.T) {
	g := NewWithT(t)
	s, at := newTestSessions()
	first := s.start("token")
	var second *session
	for range maxSessions {
		at.pass(time.Millisecond)
		if last := s.start("token"); second == nil {
			second = last
		}
		s.newCode("token", "")
	}
	g.Expect(s.open).To(HaveLen(maxSessions))
	g.Expect(s.find(first.id)).To(BeNil(), "the oldest makes room")
	g.Expect(s.find(second.id)).NotTo(BeNil())
	s.newCode("token", "")
	g.Expect(s.code).To(HaveLen(maxCodes))
	at.pass(sessionLife)
	s.start("token")
	s.newCode("token", "")
	g.Expect(s.open).To(HaveLen(1), "what has ended makes room first")
	g.Expect(s.code).To(HaveLen(1))
}

func TestMillis(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0s", 5: "5ms", 1500: "1.5s", 59_600: "1m", 61_000: "1m 1s", 3_600_000: "1h", 90 * 60_000: "1h 30m", 86_400_000: "24h", 30 * 86_400_000: "720h",
	} {
		NewWithT(t).Expect(millis(n)).To(Equal(want))
	}
}

func TestVisible(t *testing.T) {
	for part, want := range map[string]string{
		"": "(missing)", "alice": "alice", `a"b`: `a"b`, "a b": "a b", " a": `" a"`, "a\nb": `"a\nb"`, "\u202egpj": `"\u202egpj"`, "日本": "日本", `a\b`: `"a\\b"`,
	} {
		NewWithT(t).Expect(visible(part)).To(Equal(want))
	}
}

func TestPlotAddsSamplesUp(t *testing.T) {
	g := NewWithT(t)
	s := &httptypes.RateSamples{Allowed: make([]int64, 360), Denied: make([]int64, 360), ShadowDenied: make([]int64, 360)}
	s.Allowed[0], s.Allowed[5], s.Allowed[6], s.Denied[359], s.ShadowDenied[359] = 1, 2, 4, 1000, 8
	p := newPlot(s, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), 10)
	g.Expect(p.Most).To(Equal(int64(1008)))
	g.Expect(p.Total).To(Equal(httptypes.DecisionCounts{Allowed: 7, Denied: 1000, ShadowDenied: 8}))
	g.Expect(p.Slots).To(HaveLen(plotBars))
	g.Expect(p.Slots[0].Text).To(Equal("11:00: 3 allowed, 0 denied, 0 only in Shadow"))
	g.Expect(p.Slots[59].Text).To(Equal("11:59: 0 allowed, 1,000 denied, 8 only in Shadow"))
	g.Expect(p.Allowed).To(HavePrefix("M1,100V98.5h8V100z"), "a small number is visible")
	g.Expect(p.Label).To(ContainSubstring("from 11:00 to 12:00 UTC: 7 allowed, 1,000 denied"))
	g.Expect(newPlot(&httptypes.RateSamples{}, time.Time{}, 10).Most).To(BeZero())
}
