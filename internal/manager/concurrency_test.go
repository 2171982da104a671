// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
)

func TestLimitConcurrencyQueuesRequests(t *testing.T) {
	g := NewWithT(t)
	var inside, most atomic.Int64
	entered, leave := make(chan struct{}, 10), make(chan struct{})
	handler := limitConcurrency(2, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := inside.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		entered <- struct{}{}
		<-leave
		inside.Add(-1)
	}))
	ask := func(ctx context.Context) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody))
		return w.Code
	}
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() { g.Expect(ask(t.Context())).To(Equal(http.StatusOK)) })
	}
	<-entered
	<-entered
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	g.Expect(ask(gone)).To(Equal(http.StatusServiceUnavailable), "its client gave up")
	close(leave)
	all.Wait()
	g.Expect(most.Load()).To(Equal(int64(2)))
}
