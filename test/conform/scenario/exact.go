// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-dev/weir/test/conform/system"
)

// exact sends 400 parallel calls of one key to the instances, several times the quota.
func exact(instances int) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		const callers, calls, quota = 400, 10, 1_000
		if err := r.start(ctx, system.Options{Limits: []system.Limit{{Keys: []string{"account"}, Units: quota, Window: day}}, Instances: instances}); err != nil {
			return err
		}
		return parallel(callers, func(caller int) error {
			for i := range calls {
				if _, err := r.ask(ctx, (caller+i)%instances, system.Of("account", "acme", 1)); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// edge sends twice the quota shortly before, and again shortly after the end of a window: of one that is aligned to
// the clock, and of one that begins with the first unit.
func edge(ctx context.Context, r *run) error {
	const quota = 20
	if err := r.start(ctx, system.Options{Limits: []system.Limit{{Keys: []string{"account"}, Units: quota, Window: time.Second}}, Instances: 1}); err != nil {
		return err
	}
	for round := range r.settings.Rounds {
		request := system.Of("account", fmt.Sprintf("round-%d", round), 1)
		begin := time.Now().Truncate(time.Second).Add(time.Second)
		if err := r.burst(ctx, begin.Add(5*time.Millisecond), 1, request); err != nil {
			return err
		}
		anchored := time.Now() // a window that began with the first unit ends a second later at the latest
		for _, at := range []time.Time{begin.Add(900 * time.Millisecond), anchored.Add(time.Second + 20*time.Millisecond)} {
			if err := r.burst(ctx, at, 2*quota, request); err != nil {
				return err
			}
		}
	}
	return nil
}

// burst sends a number of calls at once, at the time.
func (r *run) burst(ctx context.Context, at time.Time, calls int, request system.Request) error {
	if err := sleepUntil(ctx, at); err != nil {
		return err
	}
	return parallel(calls, func(int) error {
		_, err := r.ask(ctx, 0, request)
		return err
	})
}

// hotKey sends as many calls of one key as 16 callers can to four instances, over many windows.
func hotKey(ctx context.Context, r *run) error {
	const instances = 4
	o := system.Options{Limits: []system.Limit{{Keys: []string{"account"}, Units: 200, Window: time.Second}}, Instances: instances, Cache: true}
	if err := r.start(ctx, o); err != nil {
		return err
	}
	end := time.Now().Add(time.Duration(r.settings.Rounds) * time.Second)
	return parallel(16, func(caller int) error {
		for i := 0; time.Now().Before(end); i++ {
			if _, err := r.ask(ctx, (caller+i)%instances, system.Of("account", "acme", 1)); err != nil {
				return err
			}
		}
		return nil
	})
}
