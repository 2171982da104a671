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

// logged is an engine that logs to out: a/x admits one unit a minute, a/y is disabled.
type logged struct {
	*engine.Engine
	out bytes.Buffer
}

func newLogged(level slog.Level) *logged {
	l := &logged{}
	l.Engine = engine.New(engine.Options{
		Store:      &modelStore{now: time.UnixMicro(1_900_000_000_123_456)},
		Registerer: prometheus.NewRegistry(),
		Logger:     slog.New(slog.NewJSONHandler(&l.out, &slog.HandlerOptions{Level: level})),
	})
	l.Use(plan.NewSnapshot(1, []*plan.Plan{makePlan("a/x", threshold(1)), makePlan("a/y", mode(plan.ModeDisabled))}))
	return l
}

// decide returns the line that the decision logs, or nil. The line never contains the key.
func (l *logged) decide(t *testing.T, id string) (line map[string]any) {
	t.Helper()
	g := NewWithT(t)
	l.out.Reset()
	_, err := l.Decide(t.Context(), named(id))
	g.Expect(err).NotTo(HaveOccurred())
	if l.out.Len() > 0 {
		g.Expect(l.out.String()).NotTo(ContainSubstring("alice"))
		g.Expect(json.Unmarshal(l.out.Bytes(), &line)).To(Succeed(), l.out.String())
	}
	return line
}

func TestDebugLogShowsEveryDecision(t *testing.T) {
	g := NewWithT(t)
	l := newLogged(slog.LevelDebug)
	g.Expect(l.decide(t, "a/x")).To(And(
		HaveKeyWithValue("level", "DEBUG"), HaveKeyWithValue("policy", "a/x"),
		HaveKeyWithValue("keyHash", l.KeyHash("alice")), HaveKeyWithValue("verdict", "admitted"),
		HaveKeyWithValue("used", HaveKeyWithValue("burst", 1.0))))
	g.Expect(l.decide(t, "a/x")).To(And(
		HaveKeyWithValue("allowed", false), HaveKeyWithValue("reason", "LimitExceeded"),
		HaveKeyWithValue("verdict", "denied"), HaveKeyWithValue("retryAfter", BeNumerically(">", 59e9))))
	g.Expect(l.decide(t, "a/y")).To(HaveKeyWithValue("reason", "Disabled"))
}

func TestInfoLogShowsNoDecision(t *testing.T) {
	NewWithT(t).Expect(newLogged(slog.LevelInfo).decide(t, "a/x")).To(BeEmpty())
}
