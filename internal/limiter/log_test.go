// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
)

// Every decision is logged at level Debug: the policy, the hash of the key and never
// the key, what is used, the verdict and how long to wait. At Info nothing is.
func TestDecisionsAreLogged(t *testing.T) {
	g := gomega.NewWithT(t)
	var out bytes.Buffer
	level := &slog.LevelVar{}
	level.Set(slog.LevelDebug)
	engine := limiter.NewEngine(limiter.Options{
		Evaluator:  &modelEvaluator{now: time.UnixMicro(1_900_000_000_123_456)},
		Registerer: prometheus.NewRegistry(), StoreTimeout: time.Second,
		Logger: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level})),
	})
	engine.Use(plan.NewSnapshot(1, []*plan.Plan{makePlan("a/x", threshold(1)), makePlan("a/y", mode(plan.ModeDisabled))}))
	decide := func(ids ...string) (line map[string]any) {
		out.Reset()
		_, err := engine.Decide(t.Context(), named(ids...))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		if out.Len() > 0 {
			g.Expect(out.String()).NotTo(gomega.ContainSubstring("alice"))
			g.Expect(json.Unmarshal(out.Bytes(), &line)).To(gomega.Succeed(), out.String())
		}
		return line
	}
	g.Expect(decide("a/x")).To(gomega.And(
		gomega.HaveKeyWithValue("level", "DEBUG"), gomega.HaveKeyWithValue("policy", "a/x"),
		gomega.HaveKeyWithValue("keyHash", limiter.KeyHash("alice")), gomega.HaveKeyWithValue("verdict", "admitted"),
		gomega.HaveKeyWithValue("used", gomega.HaveKeyWithValue("burst", 1.0))))
	g.Expect(decide("a/x")).To(gomega.And(
		gomega.HaveKeyWithValue("allowed", false), gomega.HaveKeyWithValue("reason", "LimitExceeded"),
		gomega.HaveKeyWithValue("verdict", "refused"), gomega.HaveKeyWithValue("retryAfter", gomega.BeNumerically(">", 59e9))))
	g.Expect(decide("a/y")).To(gomega.HaveKeyWithValue("reason", "Disabled"))
	level.Set(slog.LevelInfo)
	g.Expect(decide("a/x")).To(gomega.BeEmpty())
}
