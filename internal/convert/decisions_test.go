// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package convert_test

import (
	"bytes"
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/weir-dev/weir/api/v1alpha1"
	"github.com/weir-dev/weir/internal/compile"
	"github.com/weir-dev/weir/internal/convert"
	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
	"github.com/weir-dev/weir/test/reference"
	"github.com/weir-dev/weir/test/testenv/testpolicy"
)

// service models envoyproxy/ratelimit as documented, within one window of every limit:
// it looks up descriptors entry by entry, the exact value first, then the wildcards in
// their order, then the key alone. The limit of the last entry applies, if any.
type service struct {
	root   []node
	counts map[string]int64
}

type node struct {
	Key            string     `json:"key"`
	Value          string     `json:"value,omitempty"`
	Descriptors    []node     `json:"descriptors,omitempty"`
	RateLimit      *nodeLimit `json:"rate_limit,omitempty"`
	ShadowMode     bool       `json:"shadow_mode,omitempty"`
	ShareThreshold bool       `json:"share_threshold,omitempty"`

	at string // its place in the file
}

type nodeLimit struct {
	Unit            string `json:"unit,omitempty"`
	Unlimited       bool   `json:"unlimited,omitempty"`
	RequestsPerUnit int64  `json:"requests_per_unit,omitempty"`
}

func (s *service) allows(d plan.Descriptor) bool {
	level, counter := s.root, ""
	for i, entry := range d {
		found := lookUp(level, entry)
		if found == nil {
			return true
		}
		value := entry.Value
		if found.ShareThreshold {
			value = found.Value
		}
		counter += entry.Key + "=" + value + ","
		if i < len(d)-1 {
			level = found.Descriptors
			continue
		}
		if found.RateLimit == nil || found.RateLimit.Unlimited {
			return true
		}
		s.counts[counter]++
		return s.counts[counter] <= found.RateLimit.RequestsPerUnit || found.ShadowMode
	}
	return true
}

func lookUp(level []node, entry plan.Entry) *node {
	var wildcard, alone *node
	for i := range level {
		n := &level[i]
		switch {
		case n.Key != entry.Key:
		case n.Value != "" && n.Value == entry.Value:
			return n
		case wildcard == nil && strings.Contains(n.Value, "*") && matchesPattern(entry.Value, strings.Split(n.Value, "*")):
			wildcard = n
		case n.Value == "":
			alone = n
		}
	}
	if wildcard != nil {
		return wildcard
	}
	return alone
}

// matchesPattern reports whether the value has the parts of a pattern in their order, the first one at its start and the
// last one at its end.
func matchesPattern(value string, parts []string) bool {
	rest, found := strings.CutPrefix(value, parts[0])
	if !found {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		if _, rest, found = strings.Cut(rest, part); !found {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[len(parts)-1])
}

type modelStore struct {
	engine.Store

	model reference.Model
	now   time.Time
}

func (e *modelStore) Evaluate(_ context.Context, call *store.Call) (*store.Reply, error) {
	return e.model.Evaluate(call, e.now), nil
}

// The converted policies decide like the service.
func TestConvertedPoliciesDecideAlike(t *testing.T) {
	g := NewWithT(t)
	data, err := os.ReadFile("testdata/features.in.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	policies, _, err := convert.EnvoyRatelimit(t.Context(), fileOf(data), convert.Options{Namespace: "shop"})
	g.Expect(err).NotTo(HaveOccurred())
	e := newEngine(t, policies, &modelStore{now: time.Unix(1_900_000_000, 0)})
	var config struct{ Descriptors []node }
	g.Expect(yaml.Unmarshal(data, &config)).To(Succeed())
	s := &service{root: config.Descriptors, counts: map[string]int64{}}

	r := rand.New(rand.NewPCG(1, 1))
	keys := []string{"remote_address", "user", "tenant", "plan", "banned", "upload", "other", "path"}
	values := []string{
		"/api/1/action", "/api//action", "/api/action", "/api/1/resource/2/action", "/api/1/resource/2/other", "a.example.com", ".example.com", "example.com",
		"a.b", "a.xb", "axb", "a.\nb", "a.b\n", "", "a", "b", "bot", "internal", "partner-1", "partner-2", "guest-1", "guest-2", "guest-", "free",
	}
	denied := 0
	for range 8000 {
		var d plan.Descriptor
		for range 1 + r.IntN(2) {
			d = append(d, plan.Entry{Key: keys[r.IntN(len(keys))], Value: values[r.IntN(len(values))]})
		}
		if len(d) == 2 && (d[0].Key == d[1].Key || d[0].Key == "plan") {
			continue // the order of entries is not converted, which a Note reports
		}
		want := s.allows(d)
		decision, err := e.Decide(t.Context(), &limiter.Check{
			Cost: 1, Attributes: plan.Attributes{Domain: "edge", Descriptors: []plan.Descriptor{d}},
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(decision.Allowed).To(Equal(want), "%v: %v", d, decision.Reason)
		if !want {
			denied++
		}
	}
	g.Expect(denied).To(BeNumerically(">", 500))
}

func newEngine(t *testing.T, policies []*v1alpha1.RateLimitPolicy, backend engine.Store) *engine.Engine {
	t.Helper()
	g := NewWithT(t)
	var text bytes.Buffer
	g.Expect(convert.Write(&text, policies)).To(Succeed())
	policies, err := testpolicy.Read(t.Context(), text.Bytes())
	g.Expect(err).NotTo(HaveOccurred(), "valid for an API server")
	var plans []*plan.Plan
	for _, p := range policies {
		compiled, errs := compile.Compile(p, compile.Everything(), time.Time{})
		g.Expect(errs).To(BeEmpty(), p.Name)
		plans = append(plans, compiled)
	}
	e := engine.New(engine.Options{
		Store: backend, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler),
	})
	e.Use(index.NewSnapshot(1, plans))
	return e
}
