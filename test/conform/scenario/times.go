// Copyright The Weir Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-dev/weir/test/conform/system"
)

// announcement compares the times that denials announced with the times at which requests were admitted.
type announcement struct {
	name        string
	of          func(a system.Answer) *time.Duration
	promised    time.Time // by the first denial of a round; zero if it announced nothing
	early, late time.Duration
	given       int
}

// reset spends a quota, and asks again until a request is admitted. It compares that time with those that the first
// denial announced.
func reset(ctx context.Context, r *run) error {
	const quota = 5
	if err := r.start(ctx, system.Options{Limits: []system.Limit{{Keys: []string{"account"}, Units: quota, Window: time.Second}}, Instances: 1}); err != nil {
		return err
	}
	announcements := []*announcement{
		{name: "reset", of: func(a system.Answer) *time.Duration { return a.Reset }},
		{name: "Retry-After", of: func(a system.Answer) *time.Duration { return a.RetryAfter }},
	}
	for round := range 2 * r.settings.Rounds {
		// At another part of the second in each round.
		if err := sleepUntil(ctx, time.Now().Truncate(time.Second).Add(time.Second+time.Duration(round)*170*time.Millisecond)); err != nil {
			return err
		}
		admitted, err := r.awaitRoom(ctx, system.Of("account", fmt.Sprintf("round-%d", round), 1), announcements)
		if err != nil {
			return err
		}
		for _, a := range announcements {
			if !a.promised.IsZero() {
				a.given++
				a.late, a.early = max(a.late, admitted.Sub(a.promised)), max(a.early, a.promised.Sub(admitted))
			}
		}
	}
	for _, a := range announcements {
		if a.given == 0 {
			r.figure(a.name, "not announced")
			continue
		}
		r.figure(a.name, "denied for %d ms after it, room %d ms before it", a.late.Round(time.Millisecond).Milliseconds(), a.early.Round(time.Millisecond).Milliseconds())
	}
	return nil
}

// awaitRoom asks until a request is admitted again after a denial, and returns when that was sent.
func (r *run) awaitRoom(ctx context.Context, request system.Request, announcements []*announcement) (time.Time, error) {
	denied := false
	for {
		sent := time.Now()
		answer, err := r.ask(ctx, 0, request)
		if err != nil {
			return time.Time{}, err
		}
		if answer.Admitted && denied {
			return sent, nil
		}
		if !answer.Admitted && !denied {
			denied = true
			for _, a := range announcements {
				a.promised = time.Time{}
				if d := a.of(answer); d != nil {
					a.promised = time.Now().Add(*d)
				}
			}
		}
		if denied {
			if err := sleepUntil(ctx, time.Now().Add(2*time.Millisecond)); err != nil {
				return time.Time{}, err
			}
		}
	}
}

// edit raises a limit that is used up, and lowers one that is not, and waits until both instances have it.
func edit(ctx context.Context, r *run) error {
	const instances = 2
	limit := system.Limit{Keys: []string{"account"}, Units: 10, Window: day}
	if err := r.start(ctx, system.Options{Limits: []system.Limit{limit}, Instances: instances}); err != nil {
		return err
	}
	raised, lowered := system.Of("account", "raised", 1), system.Of("account", "lowered", 1)
	// No denial before the edit: it would be judged by the quota after it.
	if err := r.repeat(ctx, 10, raised); err != nil {
		return err
	}
	if err := r.repeat(ctx, 3, lowered); err != nil {
		return err
	}
	for _, units := range []uint32{20, 5} {
		limit.Units = units
		took, err := r.editAndAwait(ctx, limit, instances)
		if err != nil {
			return err
		}
		if units == 20 {
			r.figure("raised on all instances", "after %d ms", took.Milliseconds())
			r.setQuota(raised, 20)
			err = r.repeat(ctx, 25, raised)
		} else {
			r.figure("lowered on all instances", "after %d ms", took.Milliseconds())
			r.setQuota(lowered, 5)
			err = r.repeat(ctx, 10, lowered)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repeat asks the instances in turn.
func (r *run) repeat(ctx context.Context, calls int, request system.Request) error {
	for i := range calls {
		if _, err := r.ask(ctx, i%2, request); err != nil {
			return err
		}
	}
	return nil
}

// editAndAwait edits the limit, and asks for new keys until each instance admits as much as it has now. These calls are
// not judged.
func (r *run) editAndAwait(ctx context.Context, limit system.Limit, instances int) (time.Duration, error) {
	const patience = 90 * time.Second
	begin := time.Now()
	if err := r.cluster.Edit([]system.Limit{limit}); err != nil {
		return 0, err
	}
	for instance := range instances {
		for try := 0; ; try++ {
			admitted := 0
			for range limit.Units + 1 {
				answer, err := r.cluster.Client(instance).Ask(ctx, system.Of("account", fmt.Sprintf("probe-%d-%d-%d", limit.Units, instance, try), 1))
				if err != nil {
					return 0, err
				}
				if answer.Admitted {
					admitted++
				}
			}
			if admitted == int(limit.Units) {
				break
			}
			if time.Since(begin) > patience {
				return 0, fmt.Errorf("instance %d admits %d units %s after the limit became %d", instance, admitted, patience, limit.Units)
			}
			if err := sleepUntil(ctx, time.Now().Add(5*time.Millisecond)); err != nil {
				return 0, err
			}
		}
	}
	return time.Since(begin), nil
}

// clocks sends the calls of one key to instances whose clocks differ, and moves the clock of the store.
func clocks(ctx context.Context, r *run) error {
	const instances = 3
	if err := r.start(ctx, system.Options{
		Limits:    []system.Limit{{Keys: []string{"account"}, Units: 50, Window: time.Second}, {Keys: []string{"tenant"}, Units: 50, Window: day}},
		Instances: instances, ClockOffsets: []time.Duration{0, 500 * time.Millisecond, 30 * time.Second},
	}); err != nil {
		return err
	}
	end := time.Now().Add(time.Duration(r.settings.Rounds) * time.Second)
	err := parallel(12, func(caller int) error {
		for i := 0; time.Now().Before(end); i++ {
			if _, err := r.ask(ctx, (caller+i)%instances, system.Of("account", "acme", 1)); err != nil {
				return err
			}
			if err := sleepUntil(ctx, time.Now().Add(5*time.Millisecond)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.moveStoreClock(ctx)
}

// moveStoreClock moves the clock of the store by 30 s, forward and back, after a quota of a day is spent.
func (r *run) moveStoreClock(ctx context.Context) error {
	store, err := r.cluster.Store()
	if err != nil {
		return nil //nolint:nilerr // no store, no clock
	}
	for _, step := range []time.Duration{0, 30 * time.Second, -60 * time.Second} {
		if err := store.MoveClock(step); err != nil {
			return err
		}
		if err := r.repeat(ctx, 60, system.Of("tenant", "acme", 1)); err != nil {
			return err
		}
	}
	return nil
}
