// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store/memory"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// request is what decides in both.
type request struct{ host, path, address string }

// answer is which Ingress limits a request; empty if none does.
type answer struct {
	ingress            string
	exempt             bool
	unserved, admitted bool
}

// String returns the answer without what only one of both knows.
func (a answer) String() string {
	if a.exempt {
		return a.ingress + ", exempt"
	}
	return a.ingress
}

// manifestOf returns the Ingresses in one file.
func manifestOf(t *testing.T, ingresses []*networkingv1.Ingress) []byte {
	t.Helper()
	var file bytes.Buffer
	for _, i := range ingresses {
		text, err := yaml.Marshal(i)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(&file, "---\n%s", text)
	}
	return file.Bytes()
}

// target is Weir with the converted policies, at a time that stands.
type target struct {
	engine *engine.Engine
	notes  []convert.Note
	text   string // of the policies
}

// newTarget converts the Ingresses.
func newTarget(t *testing.T, ingresses []*networkingv1.Ingress) *target {
	t.Helper()
	g := NewWithT(t)
	converted, notes, err := convert.IngressNginx(t.Context(), []convert.File{{Name: "ingresses.yaml", Data: manifestOf(t, ingresses)}}, convert.IngressNginxOptions{Namespace: "default", Replicas: 1})
	g.Expect(err).NotTo(HaveOccurred())
	var text bytes.Buffer
	g.Expect(convert.Write(&text, converted)).To(Succeed())
	policies, err := testpolicy.Read(t.Context(), text.Bytes())
	g.Expect(err).NotTo(HaveOccurred())
	var plans []*plan.Plan
	for _, p := range policies {
		compiled, problems := compile.Compile(p, compile.Everything(), time.Time{})
		g.Expect(problems).To(BeEmpty(), p.Name)
		plans = append(plans, compiled)
	}
	now := time.UnixMilli(1_900_000_000_000)
	w := &target{notes: notes, text: text.String(), engine: engine.New(engine.Options{
		Store:      memory.NewStore(memory.Options{Keys: 1000, Now: func() time.Time { return now }}),
		Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})}
	w.engine.Use(index.NewSnapshot(1, plans))
	return w
}

func (w *target) checkOf(r request) *limiter.Check {
	a := plan.Attributes{Method: "GET", Host: r.host, Path: r.path, RemoteAddress: netip.MustParseAddr(r.address)}
	a.Normalize()
	return &limiter.Check{Cost: 1, Attributes: a}
}

// ask returns the answer of Weir without spending.
func (w *target) ask(t *testing.T, r request) (a answer) {
	t.Helper()
	g := NewWithT(t)
	explanation, err := w.engine.Explain(t.Context(), w.checkOf(r))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(explanation.Policies)).To(BeNumerically("<=", 1), "%v: %v\n%s", r, explanation.Policies, w.text)
	for _, p := range explanation.Policies {
		a.ingress, a.exempt = p.Policy, p.Action == plan.ActionAllow
	}
	return a
}

// spend returns whether Weir admits the request.
func (w *target) spend(t *testing.T, r request) bool {
	t.Helper()
	decision, err := w.engine.Decide(t.Context(), w.checkOf(r))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return decision.Allowed
}

// losses returns the notes of limits that the conversion lost.
func (w *target) losses() (losses []string) {
	for _, n := range w.notes {
		if n.Loss {
			losses = append(losses, n.String())
		}
	}
	return losses
}
