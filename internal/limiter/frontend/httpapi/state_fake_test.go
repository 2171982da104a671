// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/weir-dev/weir/internal/limiter"
	"github.com/weir-dev/weir/internal/limiter/plan"
	"github.com/weir-dev/weir/test/testenv"
)

// fakeState counts calls, runs began in each and returns err.
type fakeState struct {
	calls int
	err   error
	began func(ctx context.Context)
	holds []limiter.OpenHold
}

func (s *fakeState) do(ctx context.Context) (bool, error) {
	s.calls++
	if s.began != nil {
		s.began(ctx)
	}
	return true, s.err
}

func (*fakeState) FitKey(_ context.Context, _ string, parts []string) ([]string, error) {
	return parts, nil
}

func (*fakeState) FitSharedKey(_ string, parts []string) ([]string, error) { return parts, nil }

func (s *fakeState) Inspect(ctx context.Context, _ string, _ limiter.KeyName, _ plan.Attributes) (*limiter.KeyState, error) {
	_, err := s.do(ctx)
	return &limiter.KeyState{Holds: s.holds}, err
}

func (s *fakeState) Reset(ctx context.Context, _ string, _ limiter.KeyName) (bool, error) {
	return s.do(ctx)
}

func (s *fakeState) Block(ctx context.Context, _ string, _ limiter.KeyName, _ time.Duration) error {
	_, err := s.do(ctx)
	return err
}

func (s *fakeState) Unblock(ctx context.Context, _ string, _ limiter.KeyName) (bool, error) {
	return s.do(ctx)
}

func (s *fakeState) UnblockAll(ctx context.Context, _ string) (int, error) {
	_, err := s.do(ctx)
	return 0, err
}

// sendAndHangUp sends a request whose client hangs up while the state call runs.
func sendAndHangUp(t *testing.T, log *testenv.Log, method, target, body string) *httptest.ResponseRecorder {
	t.Helper()
	ctx, hangUp := context.WithCancel(t.Context())
	state := &fakeState{}
	state.began = func(ctx context.Context) { hangUp(); state.err = ctx.Err() }
	r := httptest.NewRequest(method, target, strings.NewReader(body)).WithContext(ctx)
	r.RemoteAddr = loopback
	r.Header.Set("Authorization", "Bearer root")
	w := httptest.NewRecorder()
	New(Options{Engine: &fakeEngine{}, State: state, Authorizer: team, Logger: slog.New(slog.NewTextHandler(log, nil))}).ServeHTTP(w, r)
	return w
}

func TestInspectIsCanceledForACallerThatHangsUp(t *testing.T) {
	g := NewWithT(t)
	var log testenv.Log
	g.Expect(sendAndHangUp(t, &log, http.MethodGet, pathState+"?policy=shop/a", "").Code).To(Equal(statusClientClosed))
	g.Expect(log.String()).NotTo(ContainSubstring("ERROR"))
}

func TestChangeFinishesForACallerThatHangsUp(t *testing.T) {
	g := NewWithT(t)
	var log testenv.Log
	g.Expect(sendAndHangUp(t, &log, http.MethodPost, pathReset, `{"policy":"shop/a"}`).Code).To(Equal(http.StatusOK))
	g.Expect(log.String()).To(ContainSubstring("Reset a key"))
	g.Expect(log.String()).NotTo(ContainSubstring("ERROR"))
}

func (s *fakeState) Explain(ctx context.Context, _ *limiter.Check) (*limiter.Explanation, error) {
	_, err := s.do(ctx)
	return &limiter.Explanation{}, err
}

func (*fakeState) KeyHash(...string) string { return "hash" }
