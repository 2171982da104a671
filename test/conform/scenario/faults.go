// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"time"

	"github.com/weir-dev/weir/test/conform/history"
	"github.com/weir-dev/weir/test/conform/system"
)

const (
	// loadCallers send a call every loadPause, so that loadQuota is used up one to two seconds after the fault.
	loadCallers = 16
	loadPause   = 10 * time.Millisecond
	loadQuota   = 2_500
	faultAfter  = 500 * time.Millisecond
)

// underLoad starts two instances and sends calls of one key for some seconds, and for half a second after the fault. The
// fault runs meanwhile; it returns when everything works again.
func underLoad(ctx context.Context, r *run, o system.Options, fault func() error) error {
	o.Limits, o.Instances = []system.Limit{{Keys: []string{"account"}, Units: loadQuota, Window: day}}, 2
	if err := r.start(ctx, o); err != nil {
		return err
	}
	loading, stop := context.WithCancel(ctx)
	defer stop()
	faulted := make(chan error, 1)
	go func() {
		begin := time.Now()
		err := sleepUntil(ctx, begin.Add(faultAfter))
		r.broken.begin = time.Now()
		if err == nil {
			err = fault()
		}
		r.broken.end = time.Now()
		r.figure("until all works again", "%d ms", r.broken.end.Sub(r.broken.begin).Milliseconds())
		if err == nil {
			err = sleepUntil(ctx, latest(begin.Add(3*time.Second), time.Now().Add(time.Second)))
		}
		stop()
		faulted <- err
	}()
	err := parallel(loadCallers, func(caller int) error {
		for i := 0; loading.Err() == nil; i++ {
			if _, err := r.ask(ctx, (caller+i)%2, system.Of("account", "acme", 1)); err != nil {
				return err
			}
			_ = sleepUntil(loading, time.Now().Add(loadPause))
		}
		return nil
	})
	if err := <-faulted; err != nil {
		return err
	}
	if err != nil {
		return err
	}
	// The rest of the quota must still be admitted, unless calls that failed have spent it.
	if err := r.repeat(ctx, loadQuota, system.Of("account", "acme", 1)); err != nil {
		return err
	}
	calls := r.recorder.Calls()
	r.figure("longest call", "%d ms", history.Percentile(calls, 1).Milliseconds())
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// restartInstance kills an instance and starts it again.
func restartInstance(ctx context.Context, r *run) error {
	return underLoad(ctx, r, system.Options{}, func() error {
		r.cluster.Instance(0).Kill()
		return r.cluster.Instance(0).Start(ctx)
	})
}

// restartStore kills a store that writes before it answers, and starts it again.
func restartStore(ctx context.Context, r *run) error {
	return underLoad(ctx, r, system.Options{Durable: true}, func() error {
		store, err := r.cluster.Store()
		if err != nil {
			return err
		}
		return store.Restart(ctx)
	})
}

// hungStore stops the store for two seconds.
func hungStore(ctx context.Context, r *run) error {
	return underLoad(ctx, r, system.Options{AsShipped: true}, func() error {
		store, err := r.cluster.Store()
		if err != nil {
			return err
		}
		if err := store.Freeze(); err != nil {
			return err
		}
		err = sleepUntil(ctx, time.Now().Add(2*time.Second))
		if thawed := store.Thaw(); thawed != nil {
			return thawed
		}
		return err
	})
}

// failover kills the master of the store.
func failover(ctx context.Context, r *run) error {
	return underLoad(ctx, r, system.Options{Sentinel: true}, func() error {
		store, err := r.cluster.Store()
		if err != nil {
			return err
		}
		return store.Failover(ctx)
	})
}
