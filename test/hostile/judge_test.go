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

	"github.com/weir-dev/weir/test/testenv"
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
	// together is the number of calls that the others send at a time, as a busy proxy does; 0 is 1.
	together int
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
	collects bool           // weir ended a garbage collection
}

// run runs the load beside the load of the others for the length, and longer if it takes time to begin.
func (at *attack) run(t *testing.T, w *weir, c *clients, p *attackerProcess, name string, length time.Duration) *round {
	t.Helper()
	w.resident()
	before, ticks := testenv.Scrape(t, w.metrics), w.machine.usage()
	stop, result := make(chan struct{}), make(chan *sample)
	go func() { result <- c.run(t, stop, max(1, at.together)) }()
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
	r.collects = after.Sum(collectionsMetric) > before.Sum(collectionsMetric)
	r.seen = after.Sum(at.shows, at.labels...) - before.Sum(at.shows, at.labels...)
	return r
}

// calibrations is the number of ordinary rounds before the first attack.
const calibrations = 9

const (
	worst, harmless = "worst", "harmless"

	degradedMetric    = "weir_degraded_decisions_total"
	collectionsMetric = "go_gc_duration_seconds_count"
	platform          = `namespace="platform"`
)

// twice is how many times the p99 of the others beside an ordinary load it may be beside an attack.
const twice = 2.0

// verdict is what the rounds of an attack showed.
type verdict struct {
	harmless, worst []*round
	// ordinary are the rounds beside the ordinary loads of all attacks so far.
	ordinary []*round
}

// p99 returns the median over the rounds.
func p99(rounds []*round) time.Duration {
	all := make([]time.Duration, 0, len(rounds))
	for _, r := range rounds {
		all = append(all, r.p99())
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// alike returns the rounds that had a garbage collection, or those that had none.
func alike(rounds []*round, collects bool) (same []*round) {
	for _, r := range rounds {
		if r.collects == collects {
			same = append(same, r)
		}
	}
	return same
}

// reference returns the p99 beside an ordinary load, of rounds with a garbage collection if r had one, else of
// rounds without: the collector takes idle cores, which Redis and the callers need on a small machine, so such
// a round has ten times the p99 of another, whatever the load is. It is 0 if there was no such round.
func (v *verdict) reference(r *round) (reference time.Duration) {
	for _, rounds := range [][]*round{v.harmless, v.ordinary} {
		if same := alike(rounds, r.collects); len(same) > 0 {
			reference = max(reference, p99(same))
		}
	}
	return reference
}

// ratio is the p99 of the others in a round beside the attack, divided by that beside an ordinary load: of the
// round that one of four others does not exceed, so that one disturbed round does not matter. No absolute time
// matters.
func (v *verdict) ratio() float64 {
	var all []float64
	for _, r := range v.worst {
		if reference := v.reference(r); reference > 0 {
			all = append(all, float64(r.p99())/float64(reference))
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/4]
}

// slow returns what is wrong with the latencies.
func (v *verdict) slow() (faults []string) {
	if ratio := v.ratio(); ratio > twice {
		faults = append(faults, fmt.Sprintf("p99 of the others is %.1f times the p99 beside as many ordinary requests: more than %v times", ratio, twice))
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
	const first, last = 4, 8
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
		v.ordinary = w.ordinary
	}
	at.log(t, v, disturbed)
	return v
}

// log logs the figures of the attack, and what the requests of the attack had as outcome.
func (at *attack) log(t *testing.T, v *verdict, disturbed int) {
	t.Helper()
	resident := int64(0)
	for _, r := range v.worst {
		resident = max(resident, r.resident)
	}
	t.Logf("| %s | %d | %s | %s | %.1f | %d MiB |", at.name, at.rate, inMillis(v.harmless), inMillis(v.worst), v.ratio(), resident>>20)
	t.Logf("%d rounds, %d disturbed by other processes; outcomes of the first: %v; %s%v +%.0f",
		len(v.worst), disturbed, v.worst[0].outcomes, at.shows, at.labels, v.worst[0].seen)
}

// inMillis returns the median p99 of the rounds without a garbage collection, and of those with one.
func inMillis(rounds []*round) string {
	text := make([]string, 0, 2)
	for _, collects := range []bool{false, true} {
		same := alike(rounds, collects)
		if len(same) == 0 {
			text = append(text, "-")
			continue
		}
		text = append(text, fmt.Sprintf("%.1f ms", p99(same).Seconds()*1000))
	}
	return strings.Join(text, " / ")
}
