// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weir-dev/weir/test/conform/history"
	"github.com/weir-dev/weir/test/conform/system"
)

// day is a window that does not end during a scenario.
const day = 24 * time.Hour

// callTimeout is how long a caller waits for a decision.
const callTimeout = 10 * time.Second

// run is one run of a scenario.
type run struct {
	env      *system.Environment
	system   system.System
	windows  history.WindowKind
	settings Settings
	cluster  system.Cluster
	limits   []system.Limit
	recorder *history.Recorder
	result   *Result

	mu     sync.Mutex
	quotas history.Quotas
	broken period
}

// period is the time in which something is broken. The zero value is none.
type period struct{ begin, end time.Time }

// disturbs reports whether the call was in flight in the period.
func (p period) disturbs(c *history.Call) bool {
	return !p.begin.IsZero() && c.Sent.Before(p.end) && c.Replied.After(p.begin)
}

// start starts the system.
func (r *run) start(ctx context.Context, o system.Options) (err error) {
	r.limits = o.Limits
	r.cluster, err = r.system.Start(ctx, r.env, o)
	return err
}

// ask asks an instance and records the call. Only a context that has ended is an error.
func (r *run) ask(ctx context.Context, instance int, request system.Request) (system.Answer, error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := history.Call{Units: int64(request.Units), Keys: r.keysOf(request), Sent: time.Now()}
	answer, err := r.cluster.Client(instance).Ask(limited, request)
	c.Replied = time.Now()
	c.Admitted, c.Failed = answer.Admitted, err != nil
	r.recorder.Add(c)
	return answer, ctx.Err()
}

// keysOf returns the counters of a request, and notes their quotas.
func (r *run) keysOf(request system.Request) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []string
	for _, d := range request.Descriptors {
		key := fmt.Sprintf("%q", d)
		keys = append(keys, key)
		if _, known := r.quotas[key]; known {
			continue
		}
		if limit, ok := system.NamedBy(r.limits, d); ok {
			r.quotas[key] = history.Quota{Units: int64(limit.Units), Window: limit.Window, Kind: r.windows}
		}
	}
	return keys
}

// setQuota replaces the quota of a request of one descriptor, after an edit.
func (r *run) setQuota(request system.Request, units int64) {
	key := r.keysOf(request)[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.quotas[key]
	q.Units = units
	r.quotas[key] = q
}

// parallel calls the function once for each caller at the same time, and returns the first error.
func parallel(callers int, call func(caller int) error) error {
	var all sync.WaitGroup
	errs := make(chan error, callers)
	begin := make(chan struct{})
	for caller := range callers {
		all.Go(func() {
			<-begin
			if err := call(caller); err != nil {
				errs <- err
			}
		})
	}
	close(begin)
	all.Wait()
	close(errs)
	return <-errs
}

// figure adds a result.
func (r *run) figure(name, format string, args ...any) {
	r.result.Figures = append(r.result.Figures, Figure{Name: name, Value: fmt.Sprintf(format, args...)})
}

// judge judges the recorded calls.
func (r *run) judge() {
	calls := r.recorder.Calls()
	for i := range calls {
		calls[i].Disturbed = r.broken.disturbs(&calls[i])
	}
	r.result.Over = history.Over(calls, r.quotas)
	r.result.OverDocumented = history.OverDocumented(calls, r.quotas)
	r.result.Under = history.Under(calls, r.quotas)
	r.result.Counts = history.Count(calls)
	r.result.P50, r.result.P99 = history.Percentile(calls, 0.5), history.Percentile(calls, 0.99)
}

// sleepUntil waits for the time, or for the end of the context.
func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
