// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/engine"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/internal/limiter/plan/index"
	"github.com/weir-dev/weir/internal/limiter/store"
)

// logged is an engine that logs to out: a/x admits one unit a minute, a/y is disabled.
type logged struct {
	*engine.Engine
	store *testStore
	out   bytes.Buffer
}

func newLogged(level slog.Level) *logged {
	l := &logged{store: newTestStore()}
	l.Engine = engine.New(engine.Options{
		Store:      l.store,
		Registerer: prometheus.NewRegistry(),
		Logger:     slog.New(slog.NewJSONHandler(&l.out, &slog.HandlerOptions{Level: level})),
	})
	l.Use(index.NewSnapshot(1, []*plan.Plan{makePlan("a/x", threshold(1)), makePlan("a/y", mode(plan.ModeDisabled))}))
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

// The log has a line for each key that a commit, a renewal or a charge changed, and for a failure of Redis.
func TestLogOfChanges(t *testing.T) {
	g := NewWithT(t)
	l := newLogged(slog.LevelDebug)
	l.Use(index.NewSnapshot(2, []*plan.Plan{makePlan("a/x", reservable)}))
	d, err := l.Reserve(t.Context(), reserve(60, "a/x"))
	g.Expect(err).NotTo(HaveOccurred())
	l.out.Reset()
	_, err = l.Commit(t.Context(), &limiter.Commit{Reservation: d.Reservation, Cost: 10})
	g.Expect(err).NotTo(HaveOccurred())
	var line map[string]any
	g.Expect(json.Unmarshal(l.out.Bytes(), &line)).To(Succeed(), l.out.String())
	g.Expect(line).To(And(
		HaveKeyWithValue("call", "commit"), HaveKeyWithValue("policy", "a/x"), HaveKeyWithValue("keyHash", l.KeyHash("alice")),
		HaveKeyWithValue("cost", 10.0), HaveKeyWithValue("estimate", 60.0), HaveKeyWithValue("found", true)))
	g.Expect(l.out.String()).NotTo(ContainSubstring("alice"))

	l.out.Reset()
	l.store.err = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	_, err = l.Commit(t.Context(), &limiter.Commit{Reservation: d.Reservation, Cost: 10})
	g.Expect(err).To(MatchError(limiter.ErrStoreUnavailable))
	g.Expect(l.out.String()).To(And(ContainSubstring(`"level":"ERROR"`), ContainSubstring(`"call":"commit"`), ContainSubstring(`"cause":"timeout"`)))
}

func TestInfoLogShowsNoDecision(t *testing.T) {
	NewWithT(t).Expect(newLogged(slog.LevelInfo).decide(t, "a/x")).To(BeEmpty())
}

// A client can cause lines of one kind with each request. They are few, and hide no other kind.
func TestLinesOfTheLogAreFew(t *testing.T) {
	g := NewWithT(t)
	l := newLogged(slog.LevelInfo)
	l.Use(index.NewSnapshot(2, append(manyPlans("a", 17), makePlan("a/x"))))
	expectFew := func(message string, check *limiter.Check) {
		l.out.Reset()
		start := time.Now()
		for range 100 {
			_, err := l.Decide(t.Context(), check)
			g.Expect(err).NotTo(HaveOccurred())
		}
		most := 1 + int(time.Since(start)/time.Second)
		g.Expect(strings.Count(l.out.String(), message)).To(And(BeNumerically(">=", 1), BeNumerically("<=", most)), l.out.String())
		g.Expect(strings.Count(l.out.String(), "\n")).To(BeNumerically("<=", 2*most), l.out.String())
	}
	expectFew("Decided without some policies", forHost())
	l.store.err = &store.Error{Cause: store.CauseTimeout, Err: context.DeadlineExceeded}
	expectFew("Decided without Redis", named("a/x"))
}
