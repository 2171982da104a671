// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/testenv"
)

// attack is one kind of load, and an ordinary one with as many requests a second.
type attack struct {
	name     string
	rate     int // requests a second, or connections
	worst    load
	harmless load
	// shows is the metric that shows the attack, with labels. Empty is none: no bound is reached.
	shows  string
	labels []string
	// outcome is the outcome that most of the requests must have, so that the attack is one.
	outcome string
	// files is the number of files that the attacker opens, if it is large.
	files uint64
	// disturb harms weir from outside, for the length. Only in the control.
	disturb func(w *weir, length time.Duration)
}

// round is what the others saw beside one load.
type round struct {
	*sample
	outcomes map[string]int // of the load
	seen     float64        // the increase of the metric that shows the attack
	counted  float64        // degraded decisions of the platform's policies, by the metric
	resident int64          // the most memory of weir
	foreign  float64        // the share of other processes in the CPU time
}

// run runs the load beside the load of the others for the length, and longer if it takes time to begin.
func (at *attack) run(t *testing.T, w *weir, c *clients, p *process, name string, length time.Duration) *round {
	t.Helper()
	w.resident()
	before, ticks := testenv.Scrape(t, w.metrics), w.machine.usage()
	stop, result := make(chan struct{}), make(chan *sample)
	go func() { result <- c.run(t, stop) }()
	p.start(name)
	if at.disturb != nil && name == worst {
		at.disturb(w, length)
	} else {
		<-time.After(length)
	}
	close(stop)
	r := &round{sample: <-result, foreign: w.machine.foreign(ticks), outcomes: p.stop()}
	after := testenv.Scrape(t, w.metrics)
	r.resident = w.resident()
	r.counted = after.Sum(degradedMetric, platform) - before.Sum(degradedMetric, platform)
	r.seen = after.Sum(at.shows, at.labels...) - before.Sum(at.shows, at.labels...)
	return r
}

// calibrations is the number of ordinary rounds before the first attack.
const calibrations = 9

const (
	worst, harmless = "worst", "harmless"

	degradedMetric = "weir_degraded_decisions_total"
	platform       = `namespace="platform"`
)

// most is how many times the p99 of the others beside an ordinary load it may be beside an attack.
const most = 2

// verdict is what the rounds of an attack showed.
type verdict struct {
	harmless, worst []*round
	// noise is the p99 that nine of ten rounds beside an ordinary load stay below, of all attacks so far.
	// Most of the others have a garbage collection of weir, which takes cores that are idle, on a small machine
	// the processes of Redis and the callers.
	noise time.Duration
}

// p99 returns the median over the rounds.
func p99(rounds []*round) time.Duration { return quantile(rounds, 0.5) }

// quantile returns the p99 that a share of the rounds did not exceed.
func quantile(rounds []*round, share float64) time.Duration {
	all := make([]time.Duration, 0, len(rounds))
	for _, r := range rounds {
		all = append(all, r.p99())
	}
	slices.Sort(all)
	return all[int(share*float64(len(all)))]
}

// ratio is the p99 of the others beside the attack, divided by that beside the ordinary load.
func (v *verdict) ratio() float64 { return float64(p99(v.worst)) / float64(p99(v.harmless)) }

// slow returns what is wrong with the latencies. A median round beside the attack may neither be worse than
// twice that beside the ordinary load, nor than what an ordinary load shows at times. No absolute time
// matters.
func (v *verdict) slow() (faults []string) {
	if v.ratio() > most && p99(v.worst) > v.noise {
		faults = append(faults, fmt.Sprintf("p99 of the others is %v, beside as many ordinary requests %v: more than %d times, and more than %v",
			p99(v.worst), p99(v.harmless), most, v.noise))
	}
	return faults
}

// isDegraded reports whether answers of the others were.
func (r *round) isDegraded() bool { return r.degraded > 0 || r.counted > 0 }

// wrong returns what is wrong with the answers, and with the memory of weir. Answers that are degraded beside
// the ordinary load, too, show that the machine is too slow for the timeout of Redis.
func (v *verdict) wrong() (faults []string) {
	tooSlow := slices.ContainsFunc(v.harmless, (*round).isDegraded)
	for i, r := range v.worst {
		if r.isDegraded() && !tooSlow {
			faults = append(faults, fmt.Sprintf("round %d: %d of %d answers of the others degraded, %.0f by the metric",
				i, r.degraded, len(r.latencies), r.counted))
		}
		if len(r.failed) > 0 {
			faults = append(faults, fmt.Sprintf("round %d: %d of %d calls of the others failed: %v", i, len(r.failed), len(r.latencies), r.failed[0]))
		}
		if r.resident > memoryLimit {
			faults = append(faults, fmt.Sprintf("round %d: weir took %d MiB", i, r.resident>>20))
		}
	}
	return faults
}

// expectReal expects that the requests of the attack were sent, and, in rounds that are long enough, reached
// the bound that they are for.
func (at *attack) expectReal(t *testing.T, v *verdict) {
	t.Helper()
	g := NewWithT(t)
	all, expected, seen := 0, 0, 0.0
	for _, r := range v.worst {
		seen += r.seen
		for outcome, n := range r.outcomes {
			all += n
			if strings.HasPrefix(outcome, at.outcome) {
				expected += n
			}
		}
	}
	g.Expect(expected).To(BeNumerically(">", all/2), "requests with the outcome %q, in the first round: %v", at.outcome, v.worst[0].outcomes)
	if at.shows != "" && timed() {
		g.Expect(seen).To(BeNumerically(">", 0), "%s%v", at.shows, at.labels)
	}
}

// measure alternates rounds of both loads. If their latencies are judged, it repeats those that other
// processes disturbed, and continues with more rounds if the others seem slow.
func (at *attack) measure(t *testing.T, w *weir, length time.Duration) *verdict {
	t.Helper()
	const first, last = 3, 7
	c, err := newClients(w.HTTP, w.GRPC)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer c.close()
	p := startAttacker(t, at, w)
	w.machine.own = []int{os.Getpid(), w.cmd.Process.Pid, w.redis.Pid(), p.cmd.Process.Pid}
	v, disturbed := &verdict{}, 0
	at.run(t, w, c, p, harmless, length/2) // opens connections
	for len(w.ordinary) < calibrations {
		w.ordinary = append(w.ordinary, at.run(t, w, c, p, harmless, length))
	}
	for len(v.worst) < first || len(v.worst) < last && w.judgesLatencies() && len(v.slow()) > 0 && len(v.wrong()) == 0 {
		if timed() {
			w.machine.awaitQuiet()
		}
		at.run(t, w, c, p, harmless, length/3) // ends what the last attack left
		beside, attacked := at.run(t, w, c, p, harmless, length), at.run(t, w, c, p, worst, length)
		if w.judgesLatencies() && max(beside.foreign, attacked.foreign) > mostForeign {
			disturbed++
			w.machine.waitedFor(2 * length)
			continue
		}
		v.harmless, v.worst, w.ordinary = append(v.harmless, beside), append(v.worst, attacked), append(w.ordinary, beside)
		v.noise = quantile(w.ordinary, 0.9)
	}
	at.log(t, v, disturbed)
	return v
}

// log logs the row of docs/security.md, and what the requests of the attack had as outcome.
func (at *attack) log(t *testing.T, v *verdict, disturbed int) {
	t.Helper()
	resident := int64(0)
	for _, r := range v.worst {
		resident = max(resident, r.resident)
	}
	inMillis := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	t.Logf("| %s | %d | %.1f ms | %.1f ms | %.1f | %d MiB |", at.name, at.rate, inMillis(p99(v.harmless)), inMillis(p99(v.worst)), v.ratio(), resident>>20)
	t.Logf("%d rounds, %d disturbed by other processes; noise %v; outcomes of the first: %v; %s%v +%.0f",
		len(v.worst), disturbed, v.noise, v.worst[0].outcomes, at.shows, at.labels, v.worst[0].seen)
}
