// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Every decision is logged at level Debug: the policy, the hash of the key and never
// the key, what is used, the verdict and how long to wait. At Info nothing is.
func TestDecisionsAreLogged(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	level := &slog.LevelVar{}
	level.Set(slog.LevelDebug)
	e := engine.New(engine.Options{
		Store:      &modelStore{now: time.UnixMicro(1_900_000_000_123_456)},
		Registerer: prometheus.NewRegistry(), StoreTimeout: time.Second,
		Logger: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level})),
	})
	e.Use(plan.NewSnapshot(1, []*plan.Plan{makePlan("a/x", threshold(1)), makePlan("a/y", mode(plan.ModeDisabled))}))
	decide := func(ids ...string) (line map[string]any) {
		out.Reset()
		_, err := e.Decide(t.Context(), named(ids...))
		g.Expect(err).NotTo(HaveOccurred())
		if out.Len() > 0 {
			g.Expect(out.String()).NotTo(ContainSubstring("alice"))
			g.Expect(json.Unmarshal(out.Bytes(), &line)).To(Succeed(), out.String())
		}
		return line
	}
	g.Expect(decide("a/x")).To(And(
		HaveKeyWithValue("level", "DEBUG"), HaveKeyWithValue("policy", "a/x"),
		HaveKeyWithValue("keyHash", e.KeyHash("alice")), HaveKeyWithValue("verdict", "admitted"),
		HaveKeyWithValue("used", HaveKeyWithValue("burst", 1.0))))
	g.Expect(decide("a/x")).To(And(
		HaveKeyWithValue("allowed", false), HaveKeyWithValue("reason", "LimitExceeded"),
		HaveKeyWithValue("verdict", "denied"), HaveKeyWithValue("retryAfter", BeNumerically(">", 59e9))))
	g.Expect(decide("a/y")).To(HaveKeyWithValue("reason", "Disabled"))
	level.Set(slog.LevelInfo)
	g.Expect(decide("a/x")).To(BeEmpty())
}
