// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-dev/weir/test/testenv/seeds"
)

// requestsPerShape is the number of requests to both.
const requestsPerShape = 2000

// For each shape nginx and Weir limit the same requests by the same Ingress and exempt the same clients.
func TestShapes(t *testing.T) {
	for name, s := range shapes {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var ingresses []*networkingv1.Ingress
			for _, d := range s.ingresses {
				ingresses = append(ingresses, d.ingress())
			}
			from, to := start(t, ingresses), newTarget(t, ingresses)
			g.Expect(from).NotTo(BeNil(), "nginx has a location twice")
			g.Expect(to.losses()).To(BeEmpty())
			limited, exempt := 0, 0
			for _, q := range requestsOf(rand.New(rand.NewPCG(1, 2)), ingresses, requestsPerShape, strings.Fields(s.hosts), strings.Fields(s.paths)) {
				want := from.ask(t, q)
				g.Expect(to.ask(t, q).String()).To(Equal(want.String()), "%+v\n%s", q, to.text)
				if want.ingress != "" {
					limited++
				}
				if want.exempt {
					exempt++
				}
			}
			g.Expect(limited).To(BeNumerically(">", requestsPerShape/20))
			g.Expect(requestsPerShape - limited + exempt).To(BeNumerically(">", requestsPerShape/20))
		})
	}
}

// The same for Ingresses at random with times of creation.
func TestRandomIngresses(t *testing.T) {
	asked, limited := 0, 0
	for seed := range seeds.OnServer(80) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			g, r := NewWithT(t), rand.New(rand.NewPCG(seed, 7))
			ingresses := randomIngresses(r, true)
			from, to := start(t, ingresses), newTarget(t, ingresses)
			if from == nil || len(to.losses()) > 0 {
				return // nginx rejects it, or a note names it
			}
			for _, q := range requestsOf(r, ingresses, 200, nil, randomPaths) {
				want := from.ask(t, q)
				g.Expect(to.ask(t, q).String()).To(Equal(want.String()), "%+v\n%s\n%s", q, manifestOf(t, ingresses), to.text)
				asked++
				if want.ingress != "" {
					limited++
				}
			}
		})
	}
	g := NewWithT(t)
	g.Expect(asked).To(BeNumerically(">=", 2000))
	g.Expect(limited).To(BeNumerically(">", asked/10))
}

var randomPaths = []string{"/a/x", "/ab", "/ac", "/a/c", "/b/c", "/b/", "/c/x", "/main.css", "/x/c"}

// Without times of creation, what no note names is the same in any order of creation, and nothing else is limited.
func TestIngressesWithoutTimes(t *testing.T) {
	asked, limited := 0, 0
	for seed := range seeds.OnServer(80) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			g, r := NewWithT(t), rand.New(rand.NewPCG(seed, 8))
			ingresses := randomIngresses(r, false)
			to := newTarget(t, ingresses)
			sources := []*source{start(t, createdInOrder(ingresses, 1)), start(t, createdInOrder(ingresses, -1))}
			if sources[0] == nil || sources[1] == nil {
				return
			}
			for _, q := range requestsOf(r, ingresses, 200, nil, randomPaths) {
				got, a, b := to.ask(t, q), sources[0].ask(t, q), sources[1].ask(t, q)
				context := []any{"%+v: %v, %v\n%s\n%s", q, a, b, manifestOf(t, ingresses), to.text}
				switch isNamed := len(to.losses()) > 0 || a.unserved && b.unserved; {
				case a.String() == b.String() && !isNamed:
					g.Expect(got.String()).To(Equal(a.String()), context...)
				case isNamed:
					g.Expect(got.String()).To(BeElementOf("", a.String(), b.String()), context...)
				default:
					g.Expect(context).To(BeEmpty(), "no note names the difference")
				}
				asked++
				if got.ingress != "" {
					limited++
				}
			}
		})
	}
	g := NewWithT(t)
	g.Expect(asked).To(BeNumerically(">=", 2000))
	g.Expect(limited).To(BeNumerically(">", asked/10))
}

// createdInOrder returns the Ingresses as created a day after another, forwards or backwards.
func createdInOrder(ingresses []*networkingv1.Ingress, step int) (created []*networkingv1.Ingress) {
	for n, i := range ingresses {
		i = i.DeepCopy()
		i.CreationTimestamp = metav1.NewTime(time.Date(2024, 5, 15+n*step, 0, 0, 0, 0, time.UTC))
		created = append(created, i)
	}
	return created
}

// A burst is admitted up to the same request: the rates add less than one request in a minute.
func TestBursts(t *testing.T) {
	g := NewWithT(t)
	var ingresses []*networkingv1.Ingress
	for _, d := range []described{
		{"slow", 1, "limit-rpm=1 limit-burst-multiplier=7 limit-allowlist=198.51.100.9", "b.example /slow /also; c.example /slow"},
		{"default", 2, "limit-rpm=1", "b.example /default"},
		{"both", 3, "limit-rps=100 limit-rpm=1 limit-burst-multiplier=2", "b.example /both"},
	} {
		ingresses = append(ingresses, d.ingress())
	}
	from, to := start(t, ingresses), newTarget(t, ingresses)
	for _, tc := range []struct {
		request request
		want    int
	}{
		{request{"b.example", "/slow", "192.0.2.1"}, 8},
		{request{"c.example", "/slow/x", "192.0.2.1"}, 0}, // one zone for all paths and hosts of an Ingress
		{request{"b.example", "/also", "2001:db8::1"}, 8},
		{request{"b.example", "/also", "2001:db8::2"}, 8}, // each address of a network
		{request{"b.example", "/slow", "198.51.100.9"}, 30},
		{request{"b.example", "/default", "192.0.2.1"}, 6},
		{request{"b.example", "/both", "192.0.2.1"}, 3},
	} {
		inNginx, inWeir := 0, 0
		for range 30 {
			if from.ask(t, tc.request).admitted {
				inNginx++
			}
			if to.spend(t, tc.request) {
				inWeir++
			}
		}
		g.Expect([]int{inNginx, inWeir}).To(Equal([]int{tc.want, tc.want}), "%+v", tc.request)
	}
}
