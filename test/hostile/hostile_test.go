// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

var total = flag.Duration("hostile", 0, "length of all attacks together; latencies are judged from about a minute on")

// judged is the shortest round whose latencies are judged.
const judged = 400 * time.Millisecond

const (
	closedConnections = "weir_closed_connections_total"
	expressionErrors  = "weir_expression_errors_total"
)

// attacks are the worst requests of every frontend for the worst policies, and the worst peers.
func attacks() []*attack {
	chain := []string{`cause="chain"`}
	return []*attack{
		{name: "480 policies of 16 limits", rate: 75, worst: checks(small(chainHost)), shows: degradedMetric, labels: chain, outcome: "200"},
		{name: "policies of nine tenants", rate: 25, worst: checks(small(crowdHost)), shows: degradedMetric, labels: chain, outcome: "200"},
		{name: "a named chain of 256 limits", rate: 25, worst: posts("/v1/check", namedChain), outcome: "200"},
		{name: "reservations without a commit", rate: reserveRate, worst: posts("/v1/reserve", reservation), outcome: "200"},
		{name: "charges with IDs", rate: 75, worst: posts("/v1/charge", charge), outcome: "200"},
		{name: "expressions in bodies of 64 KiB", rate: 75, worst: checks(expensive), outcome: "200"},
		{name: "expressions in forwarded headers", rate: 75, worst: forwarded, outcome: ""},
		{name: "expressions of ext_authz", rate: 75, worst: authorizations, outcome: "status 0"},
		{name: "paths of 4,000 segments", rate: 75, worst: checks(segments), shows: degradedMetric, labels: chain, outcome: "200"},
		{name: "16,384 keys in overrides", rate: 75, worst: checks(selected), outcome: "200"},
		{name: "keys of eight long parts", rate: 75, worst: checks(manyParts), outcome: "200"},
		{name: "bodies of 64 KiB", rate: 75, worst: largestBodies, outcome: ""},
		{name: "64 descriptors for 480 policies", rate: 25, worst: rateLimits(chainHost, 10), shows: degradedMetric, labels: chain, outcome: "OK"},
		{name: "matches of 32 hosts and 32 paths", rate: 75, worst: checks(small("0." + blockHost)), outcome: "200"},
		{name: "64 descriptors of 60 KiB", rate: 10, worst: rateLimits(newKeyHost, 60<<10), outcome: "OK"},
		{name: "new keys", rate: 500, worst: checks(newKeys), outcome: "200"},
		{name: "requests of a byte at a time", rate: 400, worst: crowd(400, drip(largeRequest, 100_000), drip(largeMessage, 5000)), shows: closedConnections, labels: []string{`reason="memory"`}, outcome: "connected"},
		{name: "replies that are never read", rate: 200, worst: crowd(20, neverReads, neverReadsFrames), outcome: "connected"},
		{name: "unfinished messages of 4 MiB", rate: 20, worst: crowd(4, nil, unfinished(20)), shows: closedConnections, labels: []string{`reason="memory"`}, outcome: "connected"},
		{
			name: "idle connections and halves of headers", rate: 250, worst: crowd(1005, sendsOnly(halfHeader), sendsOnly("")), together: 64,
			shows: closedConnections, outcome: "connected",
		},
		{
			name: "first bytes of requests", rate: 2500, worst: crowd(4096, sendsFirstByte, nil), together: 64, shows: closedConnections,
			labels: []string{`reason="memory"`}, outcome: "connected", files: 4300,
		},
		{
			name: "10,000 connections", rate: 2500, worst: crowd(10_000, onlyOpen, onlyOpenFrames), shows: closedConnections,
			labels: []string{`reason="connections"`}, outcome: "connected", files: 10_200,
		},
	}
}

// control harms the others on purpose: Redis stands still for longer than a call waits for it.
var control = &attack{name: "control", rate: 75, worst: checks(small(ordinaryHost)), outcome: "200", disturb: func(w *weir, length time.Duration) {
	w.redis.Pause()
	<-time.After(length + sharedTimeout)
	w.redis.Resume()
}}

func findAttack(name string) *attack {
	all := append(attacks(), control)
	i := slices.IndexFunc(all, func(at *attack) bool { return at.name == name })
	if i < 0 {
		return nil
	}
	if all[i].harmless == nil {
		all[i].harmless = ordinary
	}
	return all[i]
}

// roundLength is the length of a round, of which each attack has eight.
func roundLength() time.Duration {
	return max(200*time.Millisecond, *total/time.Duration(12*(len(attacks())+1)))
}

// timed reports whether latencies are judged. A shorter run may share the machine.
func timed() bool { return roundLength() >= judged }

// judgesLatencies reports whether the latencies of further rounds are judged.
func (w *weir) judgesLatencies() bool { return timed() && !w.machine.busy }

// storeTimeout is the default of weir, unless other processes may disturb it.
func storeTimeout() time.Duration {
	if !timed() {
		return sharedTimeout
	}
	return 50 * time.Millisecond
}

// sharedTimeout is how long a call waits for Redis beside other processes.
const sharedTimeout = 2 * time.Second

// Whatever a client and a tenant do, the others have answers from Redis, in time.
func TestHostile(t *testing.T) {
	w := startWeir(t, storeTimeout())
	for _, at := range attacks() {
		t.Run(at.name, func(t *testing.T) {
			g := NewWithT(t)
			if at.files > 0 {
				g.Expect(mayOpen(at.files)).To(Succeed())
			}
			v := at.measure(t, w, roundLength())
			at.expectReal(t, v)
			g.Expect(v.wrong()).To(BeEmpty())
			if w.judgesLatencies() {
				g.Expect(v.slow()).To(BeEmpty())
			}
		})
	}
}

// The judge finds harm: without this, TestHostile could pass by accident.
func TestHarmIsFound(t *testing.T) {
	g := NewWithT(t)
	w := startWeir(t, sharedTimeout) // the control is longer: beside the ordinary load, no machine is that slow
	v := control.measure(t, w, max(judged, roundLength()))
	control.expectReal(t, v)
	g.Expect(v.wrong()).NotTo(BeEmpty())
	if w.judgesLatencies() {
		g.Expect(v.slow()).NotTo(BeEmpty())
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(envAttack) != "" {
		if err := runAttacker(context.Background()); err != nil { //nolint:forbidigo // the process starts here
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}
