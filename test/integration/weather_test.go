// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/test/testenv"
)

// storm is what happens to Weir while requests arrive.
type storm struct {
	climate
	begin func(w *weather)
	// end ends the storm; nil if begin does, which then waits for all of it.
	end func(w *weather)
	// length is the time from begin to end.
	length time.Duration
	// away is how long after the begin Envoy may admit requests without Weir; 0 is never. A storm
	// without a healthy replica lets Envoy decide for its length, too.
	away time.Duration
	// most is how many requests of an Envoy may do without Weir, beside those that were under way at the begin; 0 is any
	// number while it is away.
	most int
}

// A busy machine may pause for this long.
const pause = time.Second

// envoyTimeout is the timeout of both filters on the page.
const envoyTimeout = 100 * time.Millisecond

// mostStray bounds the requests without Weir outside a storm to one in this number: a busy machine can keep only Weir or Envoy
// waiting for envoyTimeout, and not the test.
const mostStray = 100

// storms are the rows of the table in docs/integrations/envoy.md.
var storms = map[string]storm{
	"the only replica is killed": {
		climate: climate{replicas: 1}, length: time.Second, away: 2 * pause,
		begin: func(w *weather) { w.replicas[0].stop(syscall.SIGKILL) },
		end:   func(w *weather) { w.replicas[0].start() },
	},
	"the only replica is frozen": {
		climate: climate{replicas: 1}, length: 2 * time.Second, away: 2 * pause,
		begin: func(w *weather) { testenv.Halt(w.t, w.replicas[0].cmd.Process) },
		end:   func(w *weather) { w.replicas[0].signal(syscall.SIGCONT) },
	},
	"one of two replicas is killed": {
		climate: climate{replicas: 2}, length: 3 * time.Second, away: pause,
		most:  4, // outlier detection alone takes 5
		begin: func(w *weather) { w.replicas[0].stop(syscall.SIGKILL) },
		end:   func(w *weather) { w.replicas[0].start() },
	},
	"one of two replicas is frozen": {
		climate: climate{replicas: 2}, length: 4 * time.Second, away: pause,
		begin: func(w *weather) { testenv.Halt(w.t, w.replicas[0].cmd.Process) },
		end:   func(w *weather) { w.replicas[0].signal(syscall.SIGCONT) },
	},
	"one of two replicas behind a Service is frozen": {
		climate: climate{replicas: 2, service: true}, length: 5500 * time.Millisecond, away: 3500*time.Millisecond + pause,
		begin: func(w *weather) {
			// All connections are to this replica.
			testenv.Halt(w.t, w.replicas[0].cmd.Process)
			w.service.route(w.replicas[1])
		},
		end: func(w *weather) {
			w.replicas[0].signal(syscall.SIGCONT)
			for _, f := range w.fronts { // health checks alone would take longer
				NewWithT(w.t).Expect(f.stat(w.t, "weir", "http2.keepalive_timeout")).To(BeNumerically(">", 0))
			}
		},
	},
	"one of two replicas is drained": {
		climate: climate{replicas: 2, patient: true}, length: time.Second,
		begin: func(w *weather) { w.replicas[0].stop(syscall.SIGTERM) },
	},
	"both replicas are replaced": {
		climate: climate{replicas: 2, patient: true}, begin: (*weather).roll,
	},
	"both replicas behind a Service are replaced": {
		climate: climate{replicas: 3, service: true, patient: true},
		begin: func(w *weather) {
			for i, old := range w.replicas[:2] {
				w.service.route(w.replicas[i+1:]...)
				old.stop(syscall.SIGTERM)
			}
		},
	},
	"the CA and its certificates are replaced": {
		climate: climate{replicas: 2, tls: true, patient: true},
		begin: func(w *weather) {
			w.rotate()
			w.roll()
		},
	},
}

// Envoy with the documented settings, before and after each storm and during it: every request is
// answered in time, Weir decides whenever a replica can, and the limit stays exact.
func TestEnvoyInBadWeather(t *testing.T) {
	for name, s := range storms {
		t.Run(name, func(t *testing.T) { s.run(t, startWeather(t, s.climate)) })
	}
}

// run runs the storm under load and judges what the clients saw.
func (s *storm) run(t *testing.T, w *weather) {
	t.Helper()
	began := time.Now()
	s.begin(w)
	begun := time.Now()
	wait(t, began.Add(s.length))
	if s.end != nil {
		s.end(w)
	}
	ended := time.Now()
	wait(t, ended.Add(2*pause))
	for _, f := range w.fronts {
		f.traffic.end()
	}
	NewWithT(t).Expect(w.fronts[0].traffic.exhaust(t.Context())).To(Succeed())
	until := began.Add(s.away)
	if s.replicas == 1 {
		until = ended.Add(s.away)
	}
	var all []outcome
	for _, f := range w.fronts {
		seen := f.traffic.all()
		s.judge(t, f, seen, period{began, begun, until}, w.pauses)
		all = append(all, seen...)
	}
	judgeQuota(t, all)
}

// wait waits until the time.
func wait(t *testing.T, until time.Time) {
	t.Helper()
	ctx, cancel := context.WithDeadline(t.Context(), until)
	defer cancel()
	<-ctx.Done()
	NewWithT(t).Expect(t.Context().Err()).NotTo(HaveOccurred())
}

// period is when a storm began, when its begin had happened, and until when Envoy may admit requests without Weir.
type period struct{ began, begun, until time.Time }

// judge checks that each request got the answer of Weir or of the upstream, in time, and that only
// requests of the storm did without Weir, if any, or those for which the machine had no time.
func (s *storm) judge(t *testing.T, f *front, seen []outcome, p period, pauses *testenv.Pauses) {
	t.Helper()
	g := NewWithT(t)
	missed := filter(seen, func(o *outcome) bool { return !o.decided })
	for _, o := range seen {
		g.Expect(o.err).NotTo(HaveOccurred(), "%+v", o)
		g.Expect(o.status).To(BeElementOf(http.StatusOK, http.StatusTooManyRequests), "%+v", o)
		g.Expect(o.status == http.StatusOK || o.user == limitedUser && o.decided).To(BeTrue(), "%+v", o)
	}
	byEnvoy := filter(missed, func(o *outcome) bool { return !o.degraded })
	g.Expect(f.stat(t, "shop", f.filter+".failure_mode_allowed")).To(BeEquivalentTo(len(byEnvoy)), "requests that Envoy admitted without Weir")
	t.Logf("%s: %d requests, %d without Weir, the slowest took %v", f.filter, len(seen), len(missed), slowest(seen))
	counted := filter(missed, func(o *outcome) bool { return !pauses.Within(o.sent, o.sent.Add(o.took)) })
	if s.away == 0 || s.most > 0 {
		counted = filter(counted, func(o *outcome) bool { return s.most == 0 || o.sent.After(p.begun) })
		g.Expect(len(counted)).To(BeNumerically("<=", s.most), "requests without Weir")
	}
	var stray []time.Duration // after the begin
	for _, o := range counted {
		if after := o.sent.Sub(p.began); after.Abs() > p.until.Sub(p.began) {
			stray = append(stray, after)
		}
		g.Expect(o.took).To(BeNumerically("<", envoyTimeout+pause)) // busy: pauses are left out
	}
	g.Expect(len(stray)).To(BeNumerically("<=", len(seen)/mostStray), "requests without Weir outside the storm: %v", stray)
	if len(counted) >= 10 { // of fewer, one pause of the machine can be the median
		slices.SortFunc(counted, func(a, b outcome) int { return int(a.took - b.took) })
		g.Expect(counted[len(counted)/2].took).To(BeNumerically("<", envoyTimeout+envoyTimeout/2), "median") // busy: pauses are left out
		t.Logf("%s: without Weir until %v after the begin", f.filter, slices.MaxFunc(counted, func(a, b outcome) int { return a.sent.Compare(b.sent) }).sent.Sub(p.began))
	}
}

// judgeQuota checks that Weir admitted the whole quota and no more. Units that it counted for a request
// that Envoy had admitted without it may be missing.
func judgeQuota(t *testing.T, all []outcome) {
	t.Helper()
	ofLimited := filter(all, func(o *outcome) bool { return o.user == limitedUser && o.status == http.StatusOK })
	admitted := len(filter(ofLimited, func(o *outcome) bool { return o.decided }))
	NewWithT(t).Expect(admitted).To(And(BeNumerically("<=", weatherQuota), BeNumerically(">=", weatherQuota-(len(ofLimited)-admitted))),
		"admitted by the limit")
}
