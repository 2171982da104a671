// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	clients = 12
	// pause is the time between two calls of a client.
	pause = 12 * time.Millisecond
	// slicedClients is the number of further clients, of the policies with slices.
	slicedClients = 4
	// keys is the number of keys of the policies with an hourly quota.
	keys = 3
	// overflowKey is the key of calls that were decided by the budget of new keys.
	overflowKey = "overflow"
)

// load is clients that call the weir processes in turn until the load is stopped. Like the endpoints
// of a Service, a process that is not ready gets no new calls.
type load struct {
	history
	targets []*weir
	ready   []atomic.Bool
	client  *http.Client
	next    atomic.Int64
	retired atomic.Int64   // the number of the last processes that get no calls
	sliced  []atomic.Int64 // when each process has last decided from a slice, in nanoseconds since 1970
	cancel  context.CancelFunc
	wait    sync.WaitGroup
}

// startLoad starts the clients.
func startLoad(tb testing.TB, targets ...*weir) *load {
	tb.Helper()
	l := &load{targets: targets, ready: make([]atomic.Bool, len(targets)), sliced: make([]atomic.Int64, len(targets)), client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: clients + slicedClients, DisableCompression: true}, Timeout: 2 * patientTimeout,
	}}
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(tb.Context())
	for i := range targets {
		l.ready[i].Store(true)
		l.wait.Go(func() { l.probe(ctx, i) })
	}
	for i := range clients {
		l.wait.Go(func() { l.run(ctx, func(n int) { l.callNext(i, n) }) })
	}
	for range slicedClients {
		l.wait.Go(func() { l.run(ctx, l.callSliced()) })
	}
	tb.Cleanup(func() { l.stop() })
	return l
}

// stop stops the clients and waits for their last calls.
func (l *load) stop() {
	l.cancel()
	l.wait.Wait()
	l.client.CloseIdleConnections()
}

// retire ends the calls to the last processes.
func (l *load) retire(processes int) { l.retired.Store(int64(processes)) }

// probe keeps the readiness of one process up to date.
func (l *load) probe(ctx context.Context, i int) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			l.ready[i].Store(get("http://"+l.targets[i].address+"/readyz") == nil)
		}
	}
}

// run sends the calls of one client; call sends the n-th.
func (*load) run(ctx context.Context, call func(n int)) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			call(n)
		}
	}
}

// callNext makes the n-th call of a client, to each policy without slices in turn.
func (l *load) callNext(client, n int) {
	key := fmt.Sprint("key-", n%keys)
	switch n % 5 {
	case 0:
		l.call("open", key)
	case 1:
		l.call("closed", key)
	case 2:
		l.call("local", key)
	case 3:
		l.call("second", "key")
	default:
		l.call("many", fmt.Sprintf("key-%d-%d", client, n%50))
	}
}

// callSliced returns the calls of a client to the policies with slices in turn. After a denial by rolling it rests for
// the window: if callers take each unit as it becomes free, so few are left that no process gets a slice.
func (l *load) callSliced() func(n int) {
	const rest = 10 * time.Second
	var resumes time.Time
	return func(n int) {
		policy := slicedPolicies[n%len(slicedPolicies)]
		if policy == "rolling" && time.Now().Before(resumes) {
			return
		}
		r := l.ask(policy, "key")
		l.add(r)
		if policy == "rolling" && !r.allowed {
			resumes = r.end.Add(rest)
		}
	}
}

// call makes one call and records it.
func (l *load) call(policy, key string) { l.add(l.ask(policy, key)) }

// ask makes one call.
func (l *load) ask(policy, key string) record { return l.askBy(l.post, policy, key) }

// askBy makes one call by post, which sends the body and returns the process that got it.
func (l *load) askBy(post func(body string) (*http.Response, int, error), policy, key string) record {
	body := fmt.Sprintf(`{"policies":["faults/%s"],"key":%q}`, policy, key)
	r := record{start: time.Now(), policy: policy, key: key, cost: 1}
	response, process, err := post(body)
	r.process = process
	r.end = time.Now()
	if err != nil {
		r.failed, r.failure = true, err.Error()
		return r
	}
	defer func() { _ = response.Body.Close() }()
	r.allowed = response.StatusCode == http.StatusOK
	r.degraded = response.Header.Get("Weir-Degraded")
	if response.Header.Get("Weir-Overflow") != "" {
		r.key = overflowKey // Redis is nearly full, and the key was new
	}
	if response.StatusCode >= 500 && r.degraded == "" {
		r.failed, r.failure = true, response.Status
	}
	if slices.Contains(slicedPolicies, policy) && !r.failed {
		l.readSlices(&r, response.Body)
	}
	return r
}

// readSlices reads what slices did from the answer to the call.
func (l *load) readSlices(r *record, body io.Reader) {
	var answer struct {
		FromSlice bool
		WaitsFor  string
	}
	if err := json.NewDecoder(body).Decode(&answer); err != nil {
		r.failed, r.failure = true, err.Error()
		return
	}
	r.fromSlice, r.waits = answer.FromSlice, answer.WaitsFor != ""
	if r.fromSlice {
		l.sliced[r.process].Store(r.end.UnixNano())
	}
}

// awaitSlice waits until the process has a slice. On a busy machine the clients make too few calls for one, so it adds some.
func (l *load) awaitSlice(process int) {
	l.burst(process, "a check from a slice", func() bool {
		return time.Since(time.Unix(0, l.sliced[process].Load())) < 50*time.Millisecond
	})
}

// awaitSliced waits until slices have decided enough checks, which it adds if they are too few.
func (l *load) awaitSliced() {
	l.burst(0, "checks from slices", func() bool {
		return len(filter(l.all(), func(r *record) bool { return r.fromSlice })) > enoughSliced
	})
}

// burst calls the process until the condition holds: at first with 40 calls at once, which make its key hot, and then for as
// long as a slice may be spent.
func (l *load) burst(process int, what string, condition func() bool) {
	const rest = 3 * time.Second // leaves units of rolling to the slice
	ask := func() {
		l.add(l.askBy(func(body string) (*http.Response, int, error) {
			response, err := l.postTo(process, body)
			return response, process, err
		}, "rolling", "key"))
	}
	var last time.Time
	await(l.targets[process].tb, what, func() bool {
		if condition() {
			return true
		}
		if time.Since(last) < rest {
			return false
		}
		var calls sync.WaitGroup
		for range 40 {
			calls.Go(ask)
		}
		calls.Wait()
		for end := time.Now().Add(slicedAge); time.Now().Before(end) && !condition(); {
			ask()
		}
		last = time.Now()
		return condition()
	})
}

// postTo sends the body to one process.
func (l *load) postTo(process int, body string) (*http.Response, error) {
	return l.client.Post("http://"+l.targets[process].address+"/v1/check", "application/json", strings.NewReader(body))
}

// post sends the body to the next process that is ready. If it accepts no connection, the next one
// gets the call, as with a load balancer. A single process gets all calls: a busy machine can let a probe fail.
func (l *load) post(body string) (response *http.Response, process int, err error) {
	err = errNoneReady
	for range 2 * len(l.targets) {
		i := int(l.next.Add(1)) % len(l.targets)
		if len(l.targets) > 1 && !l.ready[i].Load() || i >= len(l.targets)-int(l.retired.Load()) {
			continue
		}
		response, err = l.postTo(i, body)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
			return response, i, err
		}
	}
	return nil, 0, err
}

var errNoneReady = errors.New("no process is ready")
